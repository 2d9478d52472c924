"""Findings: what an audit found, in one versioned schema, and the verdict each figure earns.

VIOLATION     what was measured contradicts what was promised
LEAK          the attack gains at least the smallest gain that matters, and its interval excludes 0
TRACE         the attack gains, but less than the smallest gain that matters
NOT_DETECTED  no gain was measured by an attack that works where the defence is off
INCONCLUSIVE  the attack could not run, or its controls say that its silence means nothing
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from securefg.foundation.interval import Interval
from securefg.foundation.settings import Settings

SCHEMA = 4
MOST_SAID = 3
NOT_RECORDED = "terms that were not recorded"


class Verdict(StrEnum):
    """A conclusion of a finding, from a broken promise to no leak detected."""

    VIOLATION = "VIOLATION"
    LEAK = "LEAK"
    TRACE = "TRACE"
    NOT_DETECTED = "NOT_DETECTED"
    INCONCLUSIVE = "INCONCLUSIVE"


WORST_FIRST = (
    Verdict.VIOLATION,
    Verdict.LEAK,
    Verdict.INCONCLUSIVE,
    Verdict.TRACE,
    Verdict.NOT_DETECTED,
)
"""An unknown gain counts as worse than one that is known to be small."""

Basis = Literal["computed", "bounded", "measured"]
Unmet = Literal["", "does_not_apply", "not_asked"]


class Group(Settings):
    """A group of a finding's targets, by degree, class or client, with how exposed it is. A group
    never has only one target."""

    by: str
    name: str
    targets: int
    value: Interval


class Finding(Settings):
    """A result of one attack or one check, against one adversary's view of one run.

    value         what the attack reached, in the unit of `metric`
    prior         what is reached without the run: the headline is `gain`, the value above it
    null          the same guess against permuted truth; `null_at_chance` says that this and `blind`
                  are at chance
    blind         the gain of the same attack with every message made meaningless, or None where it
                  then makes no guess
    positive      the gain of the same attack with the defence off, and the `floor` it had to reach
    basis         how `gain` is known: computed from the law of the noise, bounded by it or by the
                  claim, or measured; a computed or bounded one has the measured in `details`
    epsilon_*     for checks of a promised epsilon: claimed, and the measured lower bound
    measured      False where nothing was measured: a need that was not met, a field that no attack
                  read, an adversary whose place no attack took
    failed        the attack or the check broke off; `because` says how
    groups        the same by degree, class and client; `details` has how exposed the ten most
                  exposed are (top_ten), beside the prior's best ten
    made          the day, since an audit of some attacks adds to what is stored
    terms         how the audit that made it was asked, where not by default: `--seed 7`
    milder        what audits on other terms said instead: the worst stands, and they are told
    check         of a promise: the check that made it, whose findings are replaced together
    because       why the verdict is what it is, in words
    cells         the cells of the table of who learns what that it is about, such as LINK-SERVER;
                  an attack that was not mounted names every adversary who could mount it
    exposes       what success means for a person, as the attack declares it
    stopped_by    which defences stop the attack, as it declares them
    unmet         of an attack that was not mounted: the run gives it nothing, or nobody asked
    """

    adversary: str
    attack: str
    method: str
    metric: str
    unit: str
    verdict: Verdict
    because: str
    value: Interval | None = None
    prior: Interval | None = None
    gain: Interval | None = None
    null: Interval | None = None
    null_at_chance: bool | None = None
    blind: Interval | None = None
    positive: Interval | None = None
    floor: float | None = None
    basis: Basis = "measured"
    epsilon_claimed: float | None = None
    epsilon_lower: float | None = None
    epsilon_ceiling: float | None = None
    confidence: float = 0.95
    estimator: str = ""
    targets: int = 0
    details: dict[str, float] = Field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    measured: bool = True
    failed: bool = False
    made: str = ""
    terms: str = ""
    milder: tuple[str, ...] = ()
    check: str = ""
    cells: tuple[str, ...] = ()
    exposes: str = ""
    stopped_by: str = ""
    unmet: Unmet = ""
    seconds: float = 0.0

    @model_serializer(mode="wrap")
    def _leave_out_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write an older finding as it was: the history of a run signs its text."""
        tree: dict[str, Any] = dump(self)
        return {name: value for name, value in tree.items() if value or name not in NEWER}

    @property
    def words(self) -> str:
        """Return why the verdict is what it is, and on which terms it was asked."""
        return "; ".join(filter(None, (self.because, self.provenance)))

    @property
    def provenance(self) -> str:
        """Return the terms of the finding, and what was said on other terms. The text is empty if
        it was asked once, by default."""
        term_texts = [f"audited with {self.terms}"] if self.terms else []
        if self.milder:
            more = f", … ({len(self.milder)} in all)" if len(self.milder) > MOST_SAID else ""
            milder = ", ".join(self.milder[-MOST_SAID:]) + more
            term_texts.append(f"the worst of {len(self.milder) + 1} audits; milder: {milder}")
        return "; ".join(term_texts)


NEWER = frozenset({"cells", "exposes", "stopped_by", "unmet"})
"""Parts of a finding that older versions did not write."""


class EndedAudit(Settings):
    """An audit that came to its end: what it was asked for, and on which terms."""

    asked: str
    terms: str


UNFINISHED = "unfinished_audit"
"""The finding that stands for what an audit has not come to; it goes when the audit ends."""
MISSING = "missing_audit"
"""The finding that stands for an audit whose findings were taken away, until it is made again."""
NOT_ASKED = "not_asked"
"""The finding that names, in `metric`, the attacks that fit the run and that nobody asked for."""
COVERAGE = frozenset({"unread_field", "untaken_place", NOT_ASKED})
"""Findings about what nobody read, made anew at the end of every audit."""
