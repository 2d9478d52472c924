"""The contract of a method with the runner, and the parts that averaging methods share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.shard import Shard
from securefg.federation.evaluation import Evaluator, LocalScore
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.foundation.streams import torch_stream
from securefg.privacy.influence import Population
from securefg.privacy.releases import Disclosure, PlannedRelease
from securefg.privacy.sums import with_census
from securefg.protocol.bounds import Bound, reals
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Meaning, Networks, Weights
from securefg.protocol.messages import Census, Message, census_of
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import MethodSettings
from securefg.settings.privacy import Unit

S = TypeVar("S", bound=MethodSettings)
ReplyTo = type[Message] | Callable[[Any], type[Message]]


@dataclass(frozen=True)
class Outlook:
    """A forecast of a run from public sizes, before it starts.

    num_training  how many nodes train, or None where only the data tell
    signal_over_noise  of every planned release, if the run had these settings; None for a release
                  that carries no noise
    """

    num_training: int | None
    signal_over_noise: Callable[[MethodSettings], tuple[float | None, ...]]


@dataclass(frozen=True)
class Scene:
    """Public sizes for which a method may recommend itself.

    num_training  how many nodes train
    unit    the unit of the epsilon that is asked for
    shown   whether others than a node's own client see predictions
    ratios  signal over noise of the method's releases with its default settings, for a signal that
            all nodes share that contribute
    """

    num_nodes: int
    num_clients: int
    num_training: int
    unit: Unit
    shown: bool
    ratios: tuple[float, ...]

    @property
    def lowest_ratio(self) -> float:
        """Return the ratio of the release that noise hurts most, or 0 if there is no release."""
        return min(self.ratios, default=0.0)


@dataclass(frozen=True)
class Suit:
    """A method's claim to suit a scene. Of several claims the highest rank is recommended."""

    rank: int
    why: str


@dataclass(frozen=True)
class Method(Generic[S]):
    """A method, as the runner knows it. A method's file exposes one as `METHOD`.

    release       the message that the server releases to the world
    networks      what everybody knows of the networks whose weights or rows are uploaded; the
                  number is the seed that all clients share
    batched       one host runs many clients as one tensor (else every client has its own host)
    server_knows  what public information beside sizes the server is entitled to
    compare       figures over the clients' own scores, for the metrics of every round
    own_noise     noise that clients add by themselves, by Message.field of the reply to a request,
                  from the seed that all share: whoever knows the seed can take it off
    exposed_uploads  how many survivors' uploads follow by algebra from one masked sum of them,
                     where its parts are sums of fewer than all
    rows_of       the rows of a sum by node in which a client has a say; by default its nodes'
    replies       the reply that every request brings, or a function that tells it from the request;
                  where one message alone holds private fields, it is the reply to all others
    check         raises where fields of a request do not fit one another or the settings; it gets
                  public sizes, and never data
    suits         tells from public sizes whether the method is a good choice, or None; docs tell on
                  which graphs its rule was made
    weighs_classes  whether clients can weigh the classes of their own labels in the loss
    choose        chooses by rule what the settings leave open, from public sizes and the noise
    answers_shown  whether anybody but a node's own client sees the model's answer for the node; the
                  audit counts attacks on answers unless a method declares that they stay at home
    """

    name: str
    summary: str
    settings: type[S]
    messages: tuple[type[Message], ...]
    release: type[Message]
    planned: Callable[[S, TrainingSettings, PublicInfo], list[PlannedRelease]]
    make_host: Callable[[Site[S]], Host]
    make_server: Callable[[PublicInfo, S, TrainingSettings, Cohort], Server]
    make_evaluator: Callable[[Graph, S, torch.device], Evaluator] | None = None
    networks: Callable[[S, PublicInfo, int], Networks] = field(
        default=lambda settings, info, seed: {}
    )
    compare: Callable[[list[LocalScore]], dict[str, float]] | None = None
    own_noise: Callable[[S, PublicInfo, int, Message, Turn], dict[str, Tensor]] | None = None
    batched: bool = False
    server_knows: frozenset[str] = frozenset()
    exposed_uploads: Callable[[S, PublicInfo, list[int]], int] | None = None
    rows_of: Callable[[S, Shard], Tensor] = lambda settings, shard: shard.node_ids
    replies: Mapping[type[Message], ReplyTo] = field(default_factory=dict)
    check: Callable[[S, PublicInfo, Message], None] | None = None
    answers_shown: Callable[[S], bool] = lambda settings: True
    choose: Callable[[S, Outlook], S] | None = None
    suits: Callable[[Scene], Suit | None] | None = None
    weighs_classes: bool = False

    def __post_init__(self) -> None:
        if self.release not in self.messages:
            raise ProtocolError(f"{self.name}: {self.release.kind} is released and not a message")
        kinds = [message.kind for message in self.messages]
        if len(set(kinds)) < len(kinds):
            raise ProtocolError(f"{self.name}: two messages are of one kind, among {sorted(kinds)}")
        for name, declaration in self.release.declarations.items():
            if Tensor in self.release.types[name] and declaration.means is None:
                raise ProtocolError(
                    f"{self.name}: {self.release.kind}.{name} is released to the world and does "
                    "not say what an adversary would read in it: public(..., means=...)"
                )
        strange = set(self.replies) - set(self.messages)
        if strange:
            names = ", ".join(sorted(message.kind for message in strange))
            raise ProtocolError(f"{self.name}.replies: found {names}; expected messages of METHOD")

    def releases(
        self, settings: S, training: TrainingSettings, info: PublicInfo
    ) -> list[PlannedRelease]:
        """Return what the method plans to send, with the census of what never changes. Raise
        ConfigError for private training if nothing trains so."""
        self.meanings(settings)  # a meaning that cannot be told is found before anything is sent
        planned = self.planned(settings, training, info)
        for release in planned:
            if release.message not in self.messages:
                raise ConfigError(
                    f"{self.name}: {release.message.kind} is planned and is no message of METHOD"
                )
        asked = training.noise_in_training
        if asked is not None and not any(release.trained for release in planned):
            raise ConfigError(
                f"training.{asked[0]}: {self.name} does not train by it; allowed: null, or a "
                "method whose training can be private"
            )
        return with_census(planned)

    @property
    def censuses(self) -> tuple[Census, ...]:
        """Return the censuses of the replies that hold constants."""
        found = [census_of(message) for message in self.messages]
        return tuple(census for census in found if census is not None)

    @property
    def every_message(self) -> tuple[type[Message], ...]:
        """Return the method's own messages and those of its censuses."""
        counts = [message for c in self.censuses for message in (c.request, c.reply)]
        return (*self.messages, *counts)

    def message(self, kind: str) -> type[Message]:
        """Return the message of a kind. Raise an error if the method has none."""
        by_kind: Mapping[str, type[Message]] = {m.kind: m for m in self.every_message}
        if kind not in by_kind:
            raise ProtocolError(f"{self.name} has no message {kind!r}; it has {sorted(by_kind)}")
        return by_kind[kind]

    @property
    def requests(self) -> tuple[type[Message], ...]:
        """Return the messages that a server may send to clients."""
        return tuple(self.replies) or tuple(m for m in self.messages if not _is_private(m))

    @property
    def has_known_replies(self) -> bool:
        """Return whether the reply to every request is known before a client computes it."""
        return bool(self.replies) or sum(map(_is_private, self.messages)) <= 1

    def reply_to(self, request: Message) -> type[Message] | None:
        """Return the class of the reply, or None if the method does not say. Raise ProtocolError
        for a message that is no request."""
        for census in self.censuses:
            if type(request) is census.request:
                return census.reply
        if type(request) not in self.requests:
            raise ProtocolError(
                f"kind: found {request.kind}, which is no request of {self.name}; expected one of "
                f"{', '.join(sorted(m.kind for m in self.requests)) or 'none'}"
            )
        found = self.replies.get(type(request))
        if found is not None:
            return found if isinstance(found, type) else found(request)
        answers = [message for message in self.messages if _is_private(message)]
        return answers[0] if len(answers) == 1 else None

    def bounds(self, settings: S, public: PublicInfo) -> dict[tuple[str, str], Bound]:
        """Return by message kind and field what requests and the released model may hold. The
        weights of a network have the length that its layout gives."""
        field_bounds = {}
        counts = {census.request for census in self.censuses}
        for message in {*self.requests, *counts, self.release}:
            for name, declaration in message.declarations.items():
                meaning = declaration.meaning(settings)
                if declaration.bounds is not None:
                    field_bounds[message.kind, name] = declaration.bounds(settings, public)
                elif isinstance(meaning, Weights) and meaning.of is not None:
                    layout = self.networks(settings, public, public.seed).get(meaning.of)
                    if layout is not None:
                        field_bounds[message.kind, name] = reals((layout.size,))
        return field_bounds

    def unbounded(self, settings: S, public: PublicInfo) -> list[str]:
        """Return the fields of requests and of the released model that have no bounds."""
        known = self.bounds(settings, public)
        return sorted(
            f"{message.kind}.{name}"
            for message in {*self.requests, self.release}
            for name in message.declarations
            if (message.kind, name) not in known and not message.types[name] <= {bool, NoneType}
        )

    def check_fit(self, settings: S, public: PublicInfo, message: Message) -> None:
        """Raise where fields of a message do not fit one another or the settings."""
        if self.check is not None and type(message) in self.messages:
            self.check(settings, public, message)

    def meanings(self, settings: S) -> dict[tuple[str, str], Meaning]:
        """Return by message kind and field what every field that has a meaning means in this
        run."""
        field_meanings = {}
        for message in self.every_message:
            for name, declaration in message.declarations.items():
                try:
                    meaning = declaration.meaning(settings)
                except Exception as error:
                    raise ConfigError(
                        f"{self.name}: {message.kind}.{name}: its means= fails on these settings: "
                        f"{type(error).__name__}: {error}"
                    ) from error
                if declaration.means is not None and not isinstance(meaning, Meaning):
                    raise ConfigError(
                        f"{self.name}: {message.kind}.{name}: its means= gives a "
                        f"{type(meaning).__name__}; wanted one of securefg.protocol.meanings"
                    )
                if meaning is not None:
                    field_meanings[message.kind, name] = meaning
        return field_meanings


def _is_private(message: type[Message]) -> bool:
    return any(declaration.is_private for declaration in message.declarations.values())


AnyMethod = Method[MethodSettings]


def population_of(method: AnyMethod, info: PublicInfo) -> Population:
    """Return the numbers beside which this run's epsilons stand, and what the server knows
    anyway."""
    words = {
        "graph": "all edges",
        "labels": "the training labels",
        "trainers": "which clients have labels",
    }
    return Population(
        num_clients=info.num_clients,
        num_nodes=info.num_nodes,
        node_holders=info.node_holders,
        edge_holders=info.edge_holders,
        given=tuple(words[name] for name in sorted(method.server_knows)),
    )


def sample_clients(num_clients: int, share: float, stream: torch.Generator) -> Clients:
    """Return a uniform sample of the clients asked at once."""
    count = asked_at_once(num_clients, share)
    if count == num_clients:
        return Clients(((0, num_clients),))
    return Clients.of(torch.randperm(num_clients, generator=stream)[:count].numpy())


def asked_at_once(num_clients: int, share: float) -> int:
    """Return ceil(share * num_clients), at least one."""
    return max(1, math.ceil(share * num_clients - 1e-9))


def require_all_clients(method: str, training: TrainingSettings) -> None:
    """Raise ConfigError where a round would ask a part of the clients of a method that sums all."""
    if training.participation < 1:
        raise ConfigError(
            f"training.participation: found {training.participation:g}; expected 1 for {method}, "
            "in which every client contributes to every sum"
        )


def participants(info: PublicInfo, training: TrainingSettings, number: int) -> Clients:
    """Return the clients that are asked in a round."""
    stream = torch_stream(info.seed, "participation", number)
    return sample_clients(info.num_clients, training.participation, stream)


def one_step_of_adam(training: TrainingSettings, optimizer: str) -> Disclosure | None:
    """Return what exact sums of weighted models disclose where a round is one step of Adam.

    The first step of Adam moves every weight by the learning rate, up or down. Times the clients'
    sizes, such steps are subset sums: they show each client's direction at every weight.
    """
    if training.local_epochs > 1 or optimizer != "adam":
        return None
    return Disclosure(
        setting="method.weighting: found nodes; expected clients",
        when="where a round is one step of Adam (training.local_epochs: 1)",
        shows="Subset sums of the clients' sizes would show the sign of every client's gradient",
        instead="Set method.weighting=clients, or training.local_epochs=5",
    )


class AveragingServer(Server):
    """A server with W := the mean of the models that came back, or W plus the mean of their
    changes.

    `request` makes the message that carries the weights. The reply's field `weights` is averaged as
    its declaration says. A method that averages writes its messages and its clients, and no server.
    """

    def __init__(
        self,
        info: PublicInfo,
        training: TrainingSettings,
        cohort: Cohort,
        initial: Tensor,
        request: Callable[[Tensor], Message],
        reply: type[Message],
        *,
        changes: bool,
    ) -> None:
        self._info, self._training, self._cohort = info, training, cohort
        self._weights, self._request, self._reply = initial, request, reply
        self._changes = changes

    def round(self, number: int) -> Message:
        """Average the models of the clients that are asked in this round."""
        clients = participants(self._info, self._training, number)
        asked = self._cohort.ask(self._request(self._weights), self._reply, clients)
        mean = require_replies(asked, number).mean("weights").to(self._weights)
        self._weights = self._weights + mean if self._changes else mean
        return self._request(self._weights)

    def state(self) -> State:
        """Return the weights."""
        return {"weights": self._weights.clone()}

    def restore(self, state: State) -> None:
        """Take up the weights."""
        self._weights = state["weights"]
