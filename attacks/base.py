"""An attack: it takes a view and a question and returns a guess.

An attack gets what one party saw (`View`) and a question (`attacks.questions`): targets in shuffled
order, and what the adversary is declared to know. It never gets the truth, a run's folder, or a
live object. The game that scores the guess (package `audits`) holds those. An attack knows no
method. It says which meanings it needs (`securefg.protocol.meanings`), and meets every run whose
fields have them. Attacks are grouped by family here. An attack from outside is one file
(docs/howto/own_attack.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
from torch import Tensor

from attacks.questions import Array as Array
from attacks.questions import Question
from securefg.data.shard import Shard
from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError, SecurefgError
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Layout, Meaning, Networks
from securefg.protocol.transcript import Adversary, Seen
from securefg.settings.execution import TrainingSettings

AdversaryKind = Literal["server", "client", "wire", "outsider"]
Place = tuple[str, str]
"""A message's kind, and a field of it."""
Function = Callable[[Tensor, Tensor], Tensor]
"""A network: flat weights, and samples, to a score per sample and class."""
MASKED = "mask"
AS_IT_IS = "plain"


class CannotAttack(SecurefgError):
    """An error: the view does not hold what the attack needs. The verdict is then INCONCLUSIVE."""


@dataclass(frozen=True)
class Noise:
    """A policy's change to a field. Every row, or every client's whole message, was clipped to
    `clip_l2`, and every number then got noise of standard deviation `sd`."""

    sd: float
    clip_l2: float

    def of_sum(self, count: int) -> Noise:
        """Return the noise of the mean over `count` clients, each of which added its own noise."""
        return Noise(self.sd / count**0.5, self.clip_l2)


@dataclass(frozen=True)
class Message:
    """A field of a recorded message, with a row per client where the field has rows.

    masked  the values are masked: nothing can be read off a single row
    summed  the values are the opened sum over `clients`, without an axis for them
    noise   what noise every client's value still has; None for none
    step    of the round, which orders what was asked in it
    """

    round: int
    clients: Clients
    value: Tensor
    meaning: Meaning
    rule: str = ""
    masked: bool = False
    summed: bool = False
    noise: Noise | None = None
    step: int = 0

    def row_of_client(self, client: int) -> Tensor | None:
        """Return this client's row, or None if it sent no row."""
        numbers = self.clients.numbers()
        return self.value[numbers.index(client)] if client in numbers else None

    of = row_of_client  # the earlier name, kept for one version


@dataclass(frozen=True)
class View:
    """A record of exactly what an adversary saw, and what everybody may know.

    meanings  what every field of every message means
    networks  the layout of every network whose weights or rows cross; a configuration is agreed,
              hence known to every party, and so is the public seed that first weights come from
    training  likewise; None for an exchange of another framework
    public    sizes; edges and training labels only where this adversary is entitled to them
    released  the model that the server released in the end, a message of kind `release_kind`
    answers   the released model's logits for every node: what whoever may query it is told
    noise     what the policy did to a field, by place; a policy is agreed, hence known. Fields
              without noise, and those whose noise was taken off, are not in it
    noise_left  fields whose noise the adversary could draw again and that still have it; from all
              others such noise was taken off
    own       the shards of the colluding clients, where the adversary is a set of clients
    query     the answers for every node after these of its own nodes (global ids) have got these
              features: a client may change what it holds, and ask again
    function  the network whose weights cross, where the auditor has its code
    """

    adversary: Adversary
    public: PublicInfo
    meanings: Mapping[Place, Meaning]
    networks: Networks = field(default_factory=dict)
    training: TrainingSettings | None = None
    released: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    release_kind: str = ""
    answers: Tensor | None = field(default=None, repr=False)
    own: tuple[Shard, ...] = ()
    query: Callable[[Tensor, Tensor], Tensor] | None = field(default=None, repr=False)
    noise: Mapping[Place, Noise] = field(default_factory=dict)
    noise_left: tuple[str, ...] = ()
    function: Function | None = field(default=None, repr=False)
    seen: Sequence[Seen] = field(default=(), repr=False)

    def places(self, need: Meaning) -> list[Place]:
        """Return the fields that mean what is needed, in the order of their declaration."""
        return [place for place, meaning in self.meanings.items() if meaning.fits(need)]

    def uploads(self, need: Meaning) -> list[Message]:
        """Return what clients sent of that meaning, in the order of recording. If several fields
        mean this, the first field that was sent counts."""
        return self._first_messages(need, up=True)

    def downloads(self, need: Meaning) -> list[Message]:
        """Return what the server sent of that meaning."""
        return self._first_messages(need, up=False)

    def sums(self, need: Meaning) -> list[Message]:
        """Return the sums that the server opened of masked uploads. If several fields mean this,
        the first counts."""
        return next(filter(None, map(self._opened_messages, self.places(need))), [])

    def all_sums(self, need: Meaning) -> list[Message]:
        """Return the opened sums of every field that means this."""
        return [message for place in self.places(need) for message in self._opened_messages(place)]

    def _opened_messages(self, place: Place) -> list[Message]:
        kind, name = place
        opened_messages = []
        for seen in self.seen:
            opened = seen.header.sender == "sum" and seen.header.kind == f"{kind}.sum"
            value = seen.fields.get(name) if opened and seen.fields is not None else None
            if isinstance(value, Tensor):
                header = seen.header
                opened_messages.append(
                    Message(
                        header.round,
                        seen.clients,
                        value,
                        self.meanings[place],
                        summed=True,
                        noise=self.noise.get(place),
                        step=header.step,
                    )
                )
        return opened_messages

    def release(self, need: Meaning) -> Tensor | None:
        """Return what the released model holds of that meaning, or None."""
        names = [name for kind, name in self.places(need) if kind == self.release_kind]
        return next((self.released[name] for name in names if name in self.released), None)

    def readable(self, need: Meaning) -> list[Message]:
        """Return the uploads whose single values can be read. Raise CannotAttack with the reason if
        there are none."""
        matching_uploads = self.uploads(need)
        plain = [message for message in matching_uploads if not message.masked]
        if plain:
            return plain
        if matching_uploads:
            raise CannotAttack(f"{need.words}: masked, so that the view holds only sums")
        raise not_seen(need)

    def best_rows(self, need: Meaning) -> list[Message]:
        """Return every client's value or, if the values were masked, the mean that the sum gives of
        all."""
        found = [message for message in self.uploads(need) if not message.masked]
        return found or [_share_mean(message) for message in self.sums(need)] or self.readable(need)

    def network(self, name: str | None) -> Layout:
        """Return the public layout of a network."""
        if name is None or name not in self.networks:
            raise CannotAttack(
                f"nothing is known of the network {name!r}: the method tells nothing"
            )
        return self.networks[name]

    @property
    def recipe(self) -> TrainingSettings:
        """Return the settings by which clients train."""
        if self.training is None:
            raise CannotAttack("how the clients train is not known")
        return self.training

    def _first_messages(self, need: Meaning, up: bool) -> list[Message]:
        for place in self.places(need):
            found = self._place_messages(place, up)
            if found:
                return found
        return []

    def _place_messages(self, place: Place, up: bool) -> list[Message]:
        kind, name = place
        place_messages = []
        for seen in self.seen:
            header = seen.header
            if header.kind != kind or header.up != up or header.sender == "sum":
                continue
            value = None if seen.fields is None else seen.fields.get(name)
            if isinstance(value, Tensor):
                rule = header.rules.get(name, "")
                meaning, masked = self.meanings[place], MASKED in rule
                place_messages.append(
                    Message(
                        header.round,
                        seen.clients,
                        value,
                        meaning,
                        rule,
                        masked,
                        noise=self.noise.get(place),
                        step=header.step,
                    )
                )
        return place_messages


def not_seen(need: Need) -> CannotAttack:
    """Return the reason for an attack whose need is not in the view."""
    return CannotAttack(
        f"{in_words(need)}: not in the view: not sent, not seen, or thinned out of the transcript "
        "(output.transcript_every)"
    )


def _share_mean(message: Message) -> Message:
    """Return the mean of a sum as every client's value, which is the best that a sum tells of a
    client."""
    count = len(message.clients)
    value = (message.value / count).expand(count, *message.value.shape)
    noise = message.noise and message.noise.of_sum(count)
    return replace(message, value=value, summed=True, noise=noise)


Q = TypeVar("Q", bound=Question)
Need = Meaning | tuple[Meaning, ...]
"""A meaning, or several of which one is enough."""


@dataclass(frozen=True)
class Attack(Generic[Q]):
    """An attack, described so that a reader can judge a finding.

    question    the type of question that `run` answers (the game for it scores the guess)

    source      the paper or the derivation
    needs       what clients must upload, or the released model tell, by meaning
    hears       what the server must send, by meaning
    assumes     what the adversary must see and know, in words
    floor       the gain over the prior that it must reach with the defence off, or its silence
                says nothing
    expected    how strong it is on undefended runs
    exposes     what it means for a person, for the page of all attacks (docs/reference/attacks.md)
    stopped_by  which defences stop it, and which do not
    rounds      rounds of a run that it wants to see with bodies
    applies_to  None where the view can be attacked, else the reason
    """

    name: str
    summary: str
    source: str
    needs: tuple[Need, ...]
    assumes: str
    adversaries: frozenset[AdversaryKind]
    question: type[Q]
    floor: float
    expected: str
    run: Callable[[View, Q, np.random.Generator], Array] = field(repr=False)
    exposes: str = ""
    stopped_by: str = ""
    hears: tuple[Need, ...] = ()
    rounds: int = 10
    applies_to: Callable[[View], str | None] = field(default=lambda view: None, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.question, type) and issubclass(self.question, Question)):
            raise ConfigError(
                f"attack {self.name}: question: found {self.question!r}; expected a type of "
                "attacks.questions.Question"
            )
        allowed = get_args(AdversaryKind)
        if not self.adversaries or not self.adversaries <= set(allowed):
            found = ", ".join(sorted(map(str, self.adversaries))) or "nobody"
            raise ConfigError(
                f"attack {self.name}: adversaries: found {found}; allowed: {', '.join(allowed)}"
            )
        for need in (*self.needs, *self.hears):
            if not all(isinstance(option, Meaning) for option in list_options(need)):
                raise ConfigError(
                    f"attack {self.name}: needs and hears are meanings "
                    f"(securefg.protocol.meanings), found {need!r}"
                )


def list_options(need: Need) -> tuple[Meaning, ...]:
    """Return the meanings of which one is enough."""
    return need if isinstance(need, tuple) else (need,)


def in_words(need: Need) -> str:
    """Return the need for people: its meanings, joined by "or"."""
    return " or ".join(option.words for option in list_options(need))


AnyAttack = Attack[Any]
