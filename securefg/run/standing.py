"""Which finding stands where a run is audited more than once: the worst that was measured.

Another seed, other trials or another smallest gain draw again; whoever draws often enough finds the
verdict that is wanted. So what was found on other terms is not taken back by something milder, and
what was found on the same terms is replaced only by a measurement. Where the run's `audit` folder
was deleted, what it had is told from the run's history, and stands all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from securefg.run.findings import WORST_FIRST, Finding, Verdict

MOST_TOLD = 100


def stands(stored: Finding, now: Sequence[Finding], terms: str, *, broke: bool) -> bool:
    """Whether a stored finding stays where an audit on these `terms` says `now` about the same.

    broke  the attack or check that should say it again did not come to its end
    """
    if not says_something(stored) or (stored.terms == terms and not broke):
        return False
    if not now:
        return stored.verdict in (Verdict.VIOLATION, Verdict.LEAK)
    return severity(stored) > max(map(severity, now))


def says_something(finding: Finding) -> bool:
    """Not so a check that broke off, or one that had too few trials to show anything."""
    if is_broken(finding):
        return False
    figures = finding.gain is not None or finding.estimator == "law"
    return figures or finding.verdict is not Verdict.INCONCLUSIVE


def is_broken(finding: Finding) -> bool:
    return finding.failed or not finding.measured


def severity(finding: Finding) -> tuple[int, float]:
    gained = finding.gain.value if finding.gain else finding.epsilon_lower
    return -WORST_FIRST.index(finding.verdict), gained or 0.0


def told_beside(stored: Finding, now: Sequence[Finding]) -> Finding:
    """The one that stands, with what was said in its place: once for all audits on like terms."""
    milder = {terms: said for terms, _, said in (text.partition(": ") for text in stored.milder)}
    for one in now:
        milder[one.terms or "the default terms"] = f"{_said(one)} ({one.made})"
    told = [f"{terms}: {said}" for terms, said in milder.items()]
    return stored.model_copy(update={"milder": tuple(told[-MOST_TOLD:])})


def _said(finding: Finding) -> str:
    gain = f" {finding.gain.value:+.3f}" if finding.gain else ""
    return f"{finding.verdict}{gain}"
