"""The size of what an attack learnt: its share of what guessing leaves open."""

from __future__ import annotations

from audits.answer.model import Level
from audits.findings.record import Finding, Verdict

ALL, MOST, SOME = 0.9, 0.5, 0.1
"""The least shares of their words."""
STANDS_OUT = 0.002
"""As in `audits.verdicts`: chance puts the ten most exposed targets there this rarely."""
CERTAIN = 1.0
"""The most that any metric reaches: an AUC, a share, a cosine."""


def share_of(finding: Finding) -> float | None:
    """Return the gain over what guessing leaves open, or None if there is no prior or no gain."""
    if finding.gain is None or finding.prior is None:
        return None
    return share_of_gain(finding.gain.value, finding.prior.value)


def share_of_gain(gain: float, prior: float) -> float:
    """Return a gain as a part of the way from the prior to certainty, within 0 and 1."""
    open_part = CERTAIN - prior
    share = min(max(gain / open_part, 0.0), 1.0) if open_part > 0 else 0.0
    return round(share, 9)  # .45 of .5 are .9, whatever binary fractions say


def level_of(finding: Finding) -> Level:
    """Return how much one mounted attack learnt."""
    if finding.verdict is Verdict.NOT_DETECTED:
        return Level.NOTHING
    if finding.verdict is Verdict.TRACE:
        return Level.TRACE
    if finding.verdict is Verdict.INCONCLUSIVE:
        return Level.NOT_KNOWN
    share = share_of(finding)
    if share is None:
        return Level.EXACT
    if share < SOME:
        return Level.FEW if _stand_out(finding) else Level.TRACE
    return Level.ALL if share >= ALL else Level.MOST if share >= MOST else Level.SOME


def _stand_out(finding: Finding) -> bool:
    """Return whether some targets are exposed although the average is not.

    Ten targets stand out if chance rarely puts them there, and if they stand out by enough.
    """
    details = finding.details
    prior = finding.prior.value if finding.prior else 0.0
    if share_of_gain(details.get("most_exposed", 0.0), prior) >= SOME:
        return True
    before = details.get("top_ten_prior", 0.0)
    ten = share_of_gain(details.get("top_ten", 1.0) - before, before)
    return details.get("tail_chance", 1.0) < STANDS_OUT and ten >= SOME
