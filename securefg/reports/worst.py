"""The worst finding in one sentence that a data protection officer understands, with counts.

A sentence says what the game of the attack measured, in the game's own words (`Finding.metric`).
"""

from __future__ import annotations

from collections.abc import Sequence

from securefg.foundation.units import number, plural, significant
from securefg.reports.curve.words import adversary_words, attack_words, capital
from securefg.run.findings import WORST_FIRST, Finding

_RATES = {0.05: "twenty", 0.1: "ten", 0.2: "five"}


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """The worst first; of one verdict the largest gain first."""
    return sorted(findings, key=lambda f: (WORST_FIRST.index(f.verdict), -_gain(f)))


def _gain(finding: Finding) -> float:
    return finding.gain.value if finding.gain else 0.0


def worst_sentence(findings: Sequence[Finding] | None) -> str:
    """Return the sentence that heads the page of a run."""
    if findings is None:
        return "Nobody has tried yet what can be learnt from this run: it was not audited."
    if not findings:
        return "Nothing was checked, so nothing is known."
    first = ranked(findings)[0]
    if first.verdict == "VIOLATION":
        return f"A privacy promise of this run is broken: {first.words}."
    if first.verdict == "LEAK":
        most = max(findings, key=_num_picked)
        return _leak(most if _num_picked(most) > 0 else first)
    if first.verdict == "INCONCLUSIVE":
        unsure = sum(f.verdict == "INCONCLUSIVE" for f in findings)
        return (
            f"Leaks cannot be ruled out: {number(unsure)} of {number(len(findings))} checks were "
            f"not made or did not hold; {_held(findings)}."
        )
    if first.verdict == "TRACE":
        return (
            f"An attack gains a trace, less than matters here: {attack_words(first.attack)} by "
            f"{adversary_words(first.adversary)}, {first.words}."
        )
    if not any(finding.gain for finding in findings):
        return (
            f"None of {number(len(findings))} checks found a broken promise; no attack was tried, "
            "so what can be learnt from this run is not known."
        )
    return (
        f"None of {number(len(findings))} checks found a leak, and every attack works where the "
        "defence is off; what no attack was tried for is not known."
    )


def _held(findings: Sequence[Finding]) -> str:
    """Promises that were kept are no attacks that failed: those are counted apart."""
    attacks = [finding for finding in findings if finding.gain]
    silent = sum(finding.verdict == "NOT_DETECTED" for finding in attacks)
    if not attacks:
        return "no attack was run to its end"
    return f"of {plural(len(attacks), 'attack')} that were run, {number(silent)} found no leak"


def _num_picked(finding: Finding) -> float:
    return finding.details.get("picked", -1.0) if finding.verdict == "LEAK" else -1.0


def _leak(one: Finding) -> str:
    who, details = capital(adversary_words(one.adversary)), one.details
    if details.get("picked", 0) > 0:
        rate = _RATES.get(details["picked_false_alarms"], "")
        alarm = f"at one false alarm in {rate}" if rate else "with few false alarms"
        return (
            f"{who} picks out {number(int(details['picked']))} of "
            f"{number(int(details['picked_of']))} targets {alarm} "
            f"({attack_words(one.attack)}, scored by {one.metric})."
        )
    exact = next((v for k, v in details.items() if k.startswith("exact_")), 0.0)
    if exact > 0:
        found = round(exact * one.targets)
        return (
            f"Of {number(one.targets)} {_plural(one.unit)} that were tried, "
            f"{number(found)} can be reconstructed exactly by {adversary_words(one.adversary)}."
        )
    if "precision_at_num_edges" in details and one.unit == "edge":
        edges = round(details["share_of_edges"] * one.targets)
        found = round(details["precision_at_num_edges"] * edges)
        return (
            f"Of {number(edges)} links that were tried, {number(found)} are among as many best "
            f"guesses of {adversary_words(one.adversary)}."
        )
    reached = significant(one.value.value) if one.value else "more"
    before = f" instead of {significant(one.prior.value)}" if one.prior else ""
    return (
        f"{who} learns about {number(one.targets)} targets what is not known without the run: "
        f"{attack_words(one.attack)} reaches {reached}{before} ({one.metric})."
    )


def _plural(unit: str) -> str:
    first, _, rest = unit.partition(" ")
    return " ".join(filter(None, (f"{first}s", rest)))
