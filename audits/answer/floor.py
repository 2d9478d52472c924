"""The mildest outcome that the verdicts allow, whatever the table makes of them."""

from __future__ import annotations

from collections.abc import Iterable

from audits.answer.model import Outcome
from audits.findings.record import Finding, Verdict

NOBODY = "untaken_place"
"""The finding about a place that nobody took; it is told, and holds no outcome back."""
SEVERITY = list(Outcome)
FLOORS = {
    Verdict.VIOLATION: Outcome.BROKEN_PROMISE,
    Verdict.LEAK: Outcome.NOT_PRIVATE,
    Verdict.INCONCLUSIVE: Outcome.NOT_ENOUGH_MEASURED,
    Verdict.TRACE: Outcome.LEAKS_A_LITTLE,
    Verdict.NOT_DETECTED: Outcome.NOTHING_FOUND,
}


def worst_outcome(*outcomes: Outcome) -> Outcome:
    """Return the worst of some outcomes."""
    return min(outcomes, key=SEVERITY.index)


def floor_outcome(findings: Iterable[Finding]) -> Outcome:
    """Return the mildest outcome that the verdicts of all findings allow."""
    return worst_outcome(Outcome.NOTHING_FOUND, *map(_floor_of, findings))


def _floor_of(finding: Finding) -> Outcome:
    is_open = finding.verdict is Verdict.INCONCLUSIVE
    is_told = finding.attack == NOBODY or finding.unmet == "does_not_apply"
    if is_open and is_told and not finding.failed:
        return Outcome.NOTHING_FOUND
    found = FLOORS[finding.verdict]
    return worst_outcome(found, Outcome.NOT_ENOUGH_MEASURED) if finding.failed else found
