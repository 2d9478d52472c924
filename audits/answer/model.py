"""The answer to "who learns what", as plain values that every renderer shows.

Every number is copied from a stored finding or from the run's summary. No renderer computes one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from audits.findings.record import Basis, Verdict
from securefg.foundation.interval import Interval
from securefg.foundation.settings import Settings


class Outcome(StrEnum):
    """A verdict of the whole run. The worst comes first."""

    BROKEN_PROMISE = "BROKEN PROMISE"
    NOT_PRIVATE = "NOT PRIVATE"
    NOT_ENOUGH_MEASURED = "NOT ENOUGH MEASURED"
    LEAKS_A_LITTLE = "LEAKS A LITTLE"
    NOTHING_FOUND = "NOTHING FOUND"


class Level(StrEnum):
    """A level of what one adversary learns of one secret, or the reason why that is not known. The
    worst comes first.

    EXACT       values follow by algebra, so that no guess is needed
    ALL         at least 90 % of what guessing leaves open
    MOST        at least 50 %
    SOME        at least 10 %
    FEW         less on average, but the most exposed targets stand out
    NOT_KNOWN   an attack ran, and too little was there to judge it, or it failed
    NOT_TRIED   attacks fit the run, and nobody asked for them
    TRACE       less than 10 %, or less than the smallest gain that matters
    NOTHING     attacks that work without the defence found nothing
    NO_VIEW     attacks exist, and this run gives this adversary nothing that they read
    NO_ATTACK   nobody has written an attack on this secret from this place
    """

    EXACT = "EXACT"
    ALL = "ALL"
    MOST = "MOST"
    SOME = "SOME"
    FEW = "FEW"
    NOT_KNOWN = "not known"
    NOT_TRIED = "NOT TRIED"
    TRACE = "trace"
    NOTHING = "nothing"
    NO_VIEW = "-"
    NO_ATTACK = "no test"

    @property
    def rank(self) -> int:
        """Return its place from the worst, 0, on."""
        return list(Level).index(self)

    @property
    def is_leak(self) -> bool:
        """Return whether a secret is known to leak in an amount that matters."""
        return self.rank <= Level.FEW.rank

    @property
    def is_unknown(self) -> bool:
        """Return whether something could be learnt and nobody knows how much."""
        return self in (Level.NOT_KNOWN, Level.NOT_TRIED)


class Evidence(Settings):
    """An attack on a cell, with the figures of its finding.

    share      the part of what guessing leaves open, or None if the finding has no prior
    sentence   what it found, in words that its game supports
    condition  what the adversary must know or have beside its view, if the attack says so
    picked     how many targets it picks out, at which rate of false alarms
    """

    attack: str
    adversary: str
    verdict: Verdict
    level: Level
    metric: str
    unit: str
    targets: int
    prior: Interval | None
    value: Interval | None
    gain: Interval | None
    basis: Basis
    share: float | None
    sentence: str
    because: str
    assumes: str
    exposes: str
    stopped_by: str
    failed: bool
    condition: str = ""
    picked: str = ""


class Acceptance(Settings):
    """A line that somebody answers for, until a day.

    expired   the day has passed, or the leak is larger than what was accepted
    """

    code: str
    at_most: Level
    owner: str
    reason: str
    until: str
    expired: bool
    because: str = ""


class Cell(Settings):
    """A cell of the table: how much one adversary learns of one secret.

    code      stable: SFG-LINK-SERVER
    number    its footnote, from 1, or 0 if it has none
    unsure    an attack on it found little, and another one could not tell
    lack      of a cell that is not known: for lack of what
    evidence  every attack that was mounted, the worst first (the first decides the level)
    """

    code: str
    column: str
    level: Level
    number: int = 0
    unsure: bool = False
    lack: str = ""
    evidence: tuple[Evidence, ...] = ()
    acceptance: Acceptance | None = None

    @property
    def best(self) -> Evidence | None:
        """Return the attack that decides the level."""
        return self.evidence[0] if self.evidence else None

    @property
    def is_open(self) -> bool:
        """Return whether it is not known how much leaks. `trace?` is open: nobody knows whether it
        is more."""
        return self.level.is_unknown or self.unsure

    @property
    def is_small_leak(self) -> bool:
        """Return whether an attack has the verdict LEAK although its share is that of a trace."""
        return self.level is Level.TRACE and any(
            one.verdict in (Verdict.LEAK, Verdict.VIOLATION) for one in self.evidence
        )

    @property
    def counts(self) -> bool:
        """Return whether somebody has to answer for the cell: it leaks, or nobody knows whether it
        does."""
        return self.level.is_leak or self.is_small_leak or self.is_open

    @property
    def text(self) -> str:
        """Return the word of the cell, with a star for a leak under a condition."""
        if self.unsure:
            return f"{self.level.value}?"
        is_bound = self.level.is_leak and self.best is not None and bool(self.best.condition)
        return f"{self.level.value}*" if is_bound else self.level.value


class Row(Settings):
    """A secret. Its `cells` are in the order of the answer's columns."""

    code: str
    title: str
    cells: tuple[Cell, ...]

    @property
    def has_view(self) -> bool:
        """Return whether any adversary is given something that an attack on this secret reads."""
        return any(cell.level not in (Level.NO_VIEW, Level.NO_ATTACK) for cell in self.cells)


class Column(Settings):
    """An adversary: its kind (`server`), the head of the column, and the subject of a sentence."""

    kind: str
    title: str
    subject: str


class Promise(Settings):
    """A check of what the run claims of itself."""

    code: str
    name: str
    state: Literal["kept", "broken", "not known"]
    because: str
    epsilon_claimed: float | None = None
    epsilon_lower: float | None = None
    acceptance: Acceptance | None = None


GapKind = Literal["unplaced", "failed", "audit", "not_asked", "unread", "place", "weak", "absent"]


class Gap(Settings):
    """A fact that the audit cannot tell: a field that no attack reads, or an attack that failed.

    kind    unplaced: an attack leaks, and the table has no cell for it
    blocks  whether "nothing found" may not be said because of it
    """

    code: str
    kind: GapKind
    name: str
    because: str
    blocks: bool = True
    acceptance: Acceptance | None = None


NEAR = 0.02
"""A score that is this near to that of one class tells of a model that has learnt little."""


class Quality(Settings):
    """A model's score, beside the score of always naming one class."""

    score: str
    value: float | None
    one_class: float | None

    @property
    def is_useless(self) -> bool:
        """Return whether always naming one class is as good."""
        known = self.value is not None and self.one_class is not None
        return known and (self.value or 0.0) <= (self.one_class or 0.0) + 1e-9

    @property
    def is_near_one_class(self) -> bool:
        """Return whether always naming one class is nearly as good."""
        known = self.value is not None and self.one_class is not None
        return known and (self.value or 0.0) <= (self.one_class or 0.0) + NEAR


class Twin(Settings):
    """A shorter run of the same config with a remedy: its score, and the level of every cell."""

    rounds: int
    quality: Quality | None
    levels: dict[str, Level]


class Remedy(Settings):
    """A defence that the attacks themselves say would stop them.

    key      the word that `--try` takes, empty if no setting applies it
    setting  what to add to `securefg run`, empty if no setting applies it
    codes    the leaking cells of which it stops every attack, as the attacks declare
    is_needed  whether it helps a cell that no remedy before it helps
    twin     the run that was made to try it, or None if nobody tried
    tried    the level of every cell of `codes` in the twin, or None if it was not tried
    """

    key: str
    words: str
    setting: str
    codes: tuple[str, ...]
    numbers: tuple[int, ...]
    tried: dict[str, Level | None]
    is_needed: bool = True
    twin: Twin | None = None

    @property
    def is_tried(self) -> bool:
        """Return whether a defended twin of the run was audited."""
        return self.twin is not None


class RunFacts(Settings):
    """A set of facts that the answer tells about the run itself.

    masks            None where it is not known, as of another framework's exchange
    can_run_again    whether a defended twin can be run: not of another framework's exchange
    """

    name: str
    method: str
    folder: str = ""
    clients: int | None = None
    rounds: int = 1
    has_equal_weights: bool = True
    masks: bool | None = False
    noise: str = ""
    can_run_again: bool = True
    quality: Quality | None = None
    epsilon: dict[str, float | None] = Field(default_factory=dict)
    noise_protects: bool = True


class Answer(Settings):
    """An answer of an audit, as a whole.

    unknown  one sentence about what is not known
    absent   the attacks that this run gives nothing to: counted on a screen, never listed there
    """

    schema_version: Literal[1] = 1
    run: RunFacts
    outcome: Outcome
    sentence: str
    unknown: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    promises: tuple[Promise, ...]
    gaps: tuple[Gap, ...]
    remedies: tuple[Remedy, ...]
    acceptances: tuple[Acceptance, ...] = ()
    attacks_run: int
    attacks_silent: int
    absent: tuple[Gap, ...] = ()

    @property
    def attacks_not_applicable(self) -> int:
        """Return the number of attacks that this run gives nothing to."""
        return len(self.absent)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return all cells, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells)

    @property
    def leaks(self) -> tuple[Cell, ...]:
        """Return the cells that leak in an amount that matters, the worst first."""
        found = [cell for cell in self.cells if cell.level.is_leak]
        return tuple(sorted(found, key=lambda cell: (cell.level.rank, cell.number)))
