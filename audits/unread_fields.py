"""The coverage of an audit: the fields of a run, the attacks that can read them, and the unread
rest.

A field that no attack understood, an adversary whose place no attack took and an attack whose needs
were not met are findings of their own, INCONCLUSIVE with the reason. They never count as passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attacks import attack_names, attack_or_error
from attacks.base import AnyAttack, Attack, Need, Place, in_words, list_options
from audits.findings.record import NOT_ASKED, Finding, Verdict
from securefg.protocol.meanings import Answers, Meaning, Public, Release, Weights
from securefg.protocol.secrets import cell_code

ADVERSARIES = {
    "server": "the server",
    "client": "other clients",
    "outsider": "an outsider with the released model",
    "wire": "an eavesdropper",
}
UNREAD, NOBODY = "unread_field", "untaken_place"
ANSWERING = (Weights, Answers, Public)
AT_HOME = "not applicable: answers stay at home"
"""Why an attack on answers is not played where the method shows answers to nobody."""


@dataclass(frozen=True)
class Spoken:
    """A list of the fields that cross in a run, by place and meaning.

    answers  whether others see what the released model answers for nodes
    at_home  whether the method declares that nobody but a node's own client sees its answer
    """

    uploads: Mapping[Place, Meaning]
    sent: Mapping[Place, Meaning] = field(default_factory=dict)
    released: Mapping[Place, Meaning] = field(default_factory=dict)
    answers: bool = False
    at_home: bool = False

    def unmet_need(self, attack: AnyAttack) -> str | None:
        """Return the first need of the attack that nothing in the run meets, or None if all are
        met."""
        for need in attack.needs:
            if not self._has_meaning(need, self.uploads):
                if self.at_home and any(
                    isinstance(option, Answers) for option in list_options(need)
                ):
                    return AT_HOME
                return f"no upload or answer of this run holds {in_words(need)}"
        for need in attack.hears:
            if not self._has_meaning(need, self.sent):
                return f"nothing that the server sends holds {in_words(need)}"
        return None

    def read_by(self, attack: AnyAttack) -> set[Place]:
        """Return the uploads and releases that the attack reads: the first field for every need.
        Answers are made of the released model, and of nothing else that is released with it."""
        read_places = set()
        for need in attack.needs:
            for option in list_options(need):
                fitting = [p for p, m in self.uploads.items() if m.fits(option)]
                read_places |= set(fitting[:1])
                if isinstance(option, Answers) and self.answers:
                    read_places |= {p for p, m in self.released.items() if isinstance(m, ANSWERING)}
                if isinstance(option, Release):
                    read_places |= set(self.released)
                if fitting:
                    break
        beside = {p: m for p, m in self.released.items() if not isinstance(m, ANSWERING)}
        for need in (*attack.needs, *attack.hears):
            read_places |= set(
                [p for p, m in beside.items() if any(map(m.fits, list_options(need)))][:1]
            )
        return read_places

    def heard_by(self, attack: AnyAttack) -> set[Place]:
        """Return the fields sent by the server that the attack reads: the first field for every
        need."""
        heard_places = set()
        for need in attack.hears:
            fits = [p for p, m in self.sent.items() if any(m.fits(o) for o in list_options(need))]
            heard_places |= set(fits[:1])
        return heard_places

    def _has_meaning(self, need: Need, spoken: Mapping[Place, Meaning]) -> bool:
        for option in list_options(need):
            if isinstance(option, Answers) and self.answers:
                return True
            if isinstance(option, Release) and self.released:
                return True
            if any(meaning.fits(option) for meaning in spoken.values()):
                return True
        return False


def unread_findings(
    spoken: Spoken, played: Iterable[tuple[AnyAttack, str]], method: str
) -> list[Finding]:
    """Return a finding for every upload and release that no played attack reads, and for every
    field that the server sends to clients beside the release.

    An upload is private by declaration. A declared meaning without private content is a claim, and
    does not count as read.
    """
    played = list(played)
    read = {
        place
        for attack, adversary in played
        for place in spoken.read_by(attack)
        if adversary == "server" or place in spoken.released  # nobody else sees others' uploads
    }
    uploads = [("server", p, m) for p, m in spoken.uploads.items() if p not in read]
    released = [("outsider", p, m) for p, m in spoken.released.items() if p not in read]
    unread_places = [*uploads, *(one for one in released if not isinstance(one[2], Public))]
    for place, meaning in _unheard_fields(spoken, played).items():
        unread_places.append(("client", place, meaning))
    return [
        _make_finding(
            method,
            UNREAD,
            adversary,
            f"{place[0]}.{place[1]}",
            f"no attack that was run reads {place[0]}.{place[1]}: {meaning.words}; what it tells "
            "is not known",
        )
        for adversary, place, meaning in unread_places
    ]


def _unheard_fields(spoken: Spoken, played: list[tuple[AnyAttack, str]]) -> dict[Place, Meaning]:
    """Return the fields sent to clients that were made of others' uploads and that no client's
    attack reads.

    A field with the same meaning as a part of the release tells no more than the release, which has
    a finding of its own.
    """
    clients = [attack for attack, adversary in played if adversary.startswith("client")]
    heard = {place for attack in clients for place in spoken.heard_by(attack)}
    known = list(spoken.released.values())
    return {
        place: meaning
        for place, meaning in spoken.sent.items()
        if place not in heard and meaning not in known and not isinstance(meaning, Public)
    }


def untaken_findings(taken: Iterable[str], method: str) -> list[Finding]:
    """Return a finding for every adversary whose place no attack took."""
    kinds = {text.partition(":")[0] for text in taken}
    return [
        _make_finding(method, NOBODY, kind, "-", f"no attack by {words} was run")
        for kind, words in ADVERSARIES.items()
        if kind not in kinds
    ]


def not_asked(spoken: Spoken, asked: Iterable[tuple[str, str]], method: str) -> list[Finding]:
    """Return one finding for all attacks that the run gives something to and that were left out,
    from everybody's place or from somebody's.

    asked  attacks with the adversaries whose places they took (`-` stands for everybody)
    """
    every = [found for name in attack_names() if isinstance(found := attack_or_error(name), Attack)]
    places: dict[str, set[str]] = {}
    for name, adversary in asked:
        places.setdefault(name, set()).add(adversary.partition(":")[0])
    fitting = [attack for attack in every if not spoken.unmet_need(attack)]
    left = [name for attack in fitting for name in _left_out(attack, places)]
    if not left:
        return []
    cells = [code for attack in fitting for code in _cells_left_out(attack, places)]
    because = (
        f"{len(left)} attacks that this run gives something to were not asked for: "
        f"{', '.join(sorted(left))}; `securefg audit` without --only and --adversary runs them"
    )
    finding = _make_finding(method, NOT_ASKED, "-", ", ".join(sorted(left)), because)
    return [finding.model_copy(update={"cells": tuple(sorted(set(cells))), "unmet": "not_asked"})]


def _left_out(attack: AnyAttack, places: dict[str, set[str]]) -> list[str]:
    """Return the attack's name if nobody ran it, or its name with each adversary whose place it did
    not take."""
    taken = places.get(attack.name, set())
    if not taken:
        return [attack.name]
    absent = sorted(attack.adversaries - taken) if "-" not in taken else []
    return [f"{attack.name} by {kind}" for kind in absent]


def _cells_left_out(attack: AnyAttack, places: dict[str, set[str]]) -> list[str]:
    taken = places.get(attack.name, set())
    absent = () if "-" in taken else attack.adversaries - taken
    return [code for kind in absent for code in cells_of(attack, kind)]


def cells_of(attack: AnyAttack, adversary: str) -> tuple[str, ...]:
    """Return the cells of the table that an attack by this adversary is about. `-` stands for
    everybody.

    A question without a secret gets a row for every attack of its own, so that no two share a code.
    """
    secret = attack.question.secret
    row = attack.name.upper().replace("_", "-") if secret is None else secret.code
    kind = adversary.partition(":")[0]
    kinds = sorted(attack.adversaries) if kind == "-" else [kind]
    return tuple(cell_code(row, one) for one in kinds)


def _make_finding(method: str, attack: str, adversary: str, metric: str, because: str) -> Finding:
    return Finding(
        adversary=adversary,
        attack=attack,
        method=method,
        metric=metric,
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because=because,
        measured=False,
    )
