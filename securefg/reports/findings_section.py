"""The findings of an audit in words: the worst sentence, what was tested, lines, a forest plot."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audits.findings.record import WORST_FIRST, Finding
from securefg.foundation.units import number, plural, significant
from securefg.reports.words import (
    VERDICT_WORDS,
    adversary_words,
    attack_words,
    capitalise_words,
    signed,
)

_RATES = {0.05: "twenty", 0.1: "ten", 0.2: "five"}


def rank_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return the worst findings first. Among equal verdicts the largest gain comes first."""
    return sorted(findings, key=lambda f: (WORST_FIRST.index(f.verdict), -_finding_gain(f)))


def _finding_gain(finding: Finding) -> float:
    return finding.gain.value if finding.gain else 0.0


def worst_sentence(findings: Sequence[Finding] | None) -> str:
    """Return the sentence that heads the page of a run."""
    if findings is None:
        return "Nobody has tried yet what can be learnt from this run: it was not audited."
    if not findings:
        return "Nothing was checked, so nothing is known."
    first = rank_findings(findings)[0]
    if first.verdict == "VIOLATION":
        return f"A privacy promise of this run is broken: {first.words}."
    if first.verdict == "LEAK":
        most = max(findings, key=_num_picked)
        return _leak_words(most if _num_picked(most) > 0 else first)
    if first.verdict == "INCONCLUSIVE":
        unsure = sum(f.verdict == "INCONCLUSIVE" for f in findings)
        return (
            f"Leaks cannot be ruled out: {number(unsure)} of {number(len(findings))} checks were "
            f"not made or did not hold; {_silent_words(findings)}."
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


def _silent_words(findings: Sequence[Finding]) -> str:
    """Return how many attacks were silent. Kept promises are counted apart from attacks that
    failed."""
    attacks = [finding for finding in findings if finding.gain]
    silent = sum(finding.verdict == "NOT_DETECTED" for finding in attacks)
    if not attacks:
        return "no attack was run to its end"
    return f"of {plural(len(attacks), 'attack')} that were run, {number(silent)} found no leak"


def _num_picked(finding: Finding) -> float:
    return finding.details.get("picked", -1.0) if finding.verdict == "LEAK" else -1.0


def _leak_words(finding: Finding) -> str:
    who, details = capitalise_words(adversary_words(finding.adversary)), finding.details
    if details.get("picked", 0) > 0:
        rate = _RATES.get(details["picked_false_alarms"], "")
        alarm = f"at one false alarm in {rate}" if rate else "with few false alarms"
        return (
            f"{who} picks out {number(int(details['picked']))} of "
            f"{number(int(details['picked_of']))} targets {alarm} "
            f"({attack_words(finding.attack)}, scored by {finding.metric})."
        )
    exact = next((v for k, v in details.items() if k.startswith("exact_")), 0.0)
    if exact > 0:
        num_found = round(exact * finding.targets)
        return (
            f"Of {number(finding.targets)} {_plural_unit(finding.unit)} that were tried, "
            f"{number(num_found)} can be reconstructed exactly by "
            f"{adversary_words(finding.adversary)}."
        )
    if "precision_at_num_edges" in details and finding.unit == "edge":
        edges = round(details["share_of_edges"] * finding.targets)
        num_found = round(details["precision_at_num_edges"] * edges)
        return (
            f"Of {number(edges)} links that were tried, {number(num_found)} are among as many best "
            f"guesses of {adversary_words(finding.adversary)}."
        )
    reached = significant(finding.value.value) if finding.value else "more"
    before = f" instead of {significant(finding.prior.value)}" if finding.prior else ""
    return (
        f"{who} learns about {number(finding.targets)} targets what is not known without the run: "
        f"{attack_words(finding.attack)} reaches {reached}{before} ({finding.metric})."
    )


def _plural_unit(unit: str) -> str:
    first, _, rest = unit.partition(" ")
    return " ".join(filter(None, (f"{first}s", rest)))


NOT_SENT = ("not run: no upload or answer of this run", "not run: nothing that the server sends")
UNREAD, UNTAKEN = "unread_field", "untaken_place"


@dataclass(frozen=True)
class Tested:
    """A set of sentences, each complete by itself."""

    tested: tuple[str, ...]
    not_tested: tuple[str, ...]
    assumed: tuple[str, ...]


def describe_coverage(findings: Sequence[Finding] | None) -> Tested:
    """Say what was tested, what was not and why, and what was assumed."""
    known_findings = findings or ()
    made = [f for f in known_findings if f.measured and not f.failed]
    left = [f for f in known_findings if not f.measured or f.failed]
    assumed = {
        f"{attack_words(f.attack)}: {text}" for f in made for text in f.assumptions if f.gain
    }
    return Tested(
        tested=tuple(dict.fromkeys(_attack_by(f) for f in made)),
        not_tested=_by_reason(left)
        or (() if known_findings else ("nothing was tested: the run was not audited",)),
        assumed=tuple(sorted(assumed)),
    )


def _by_reason(left: Sequence[Finding]) -> tuple[str, ...]:
    """Return what was left out, with the reason. Attacks that need what the run does not send share
    one line, and all fields that no attack read share another."""
    absent = [attack_words(f.attack) for f in left if f.because.startswith(NOT_SENT)]
    unread = [f.metric for f in left if f.attack == UNREAD]
    others = [f for f in left if not f.because.startswith(NOT_SENT) and f.attack != UNREAD]
    reasons = [f.because if f.attack == UNTAKEN else f"{_attack_by(f)}: {f.words}" for f in others]
    if absent:
        reasons.append(
            f"attacks on what this run does not send: {', '.join(dict.fromkeys(absent))}"
        )
    if unread:
        reasons.append(f"read by no attack that was run: {', '.join(dict.fromkeys(unread))}")
    return tuple(dict.fromkeys(reasons))


def _attack_by(one: Finding) -> str:
    by = "" if one.adversary == "-" else f" by {adversary_words(one.adversary)}"
    return f"{attack_words(one.attack)}{by}"


def finding_anchor(attack: str, adversary: str) -> str:
    """Return the anchor of a finding on its run's page."""
    return "finding-" + re.sub(r"[^a-z0-9]+", "-", f"{attack} {adversary}".lower()).strip("-")


@dataclass(frozen=True)
class FindingsSection:
    """A section of an audit's findings, the worst first, each with its anchor, and of those that
    test a claim."""

    sentence: str
    lines: tuple[tuple[str, Finding], ...]
    claims: tuple[Finding, ...]


def findings_section(findings: Sequence[Finding] | None) -> FindingsSection | None:
    """Return the section, or None if the run was not audited."""
    if findings is None:
        return None
    ordered = sorted(findings, key=lambda one: _verdict_rank(one.verdict))
    claims = tuple(one for one in ordered if one.epsilon_claimed is not None)
    sentence = f"{plural(len(findings), 'finding')}: {count_words(findings)}."
    return FindingsSection(
        sentence, tuple(zip(_finding_anchors(ordered), ordered, strict=True)), claims
    )


def _finding_anchors(findings: Sequence[Finding]) -> list[str]:
    """Return one anchor for each finding. An attack may be played on several fields, and a number
    tells those apart."""
    given: list[str] = []
    for one in findings:
        plain = finding_anchor(one.attack, one.adversary)
        before = sum(other == plain or other.startswith(f"{plain}--") for other in given)
        given.append(f"{plain}--{before + 1}" if before else plain)
    return given


def count_words(findings: Sequence[Finding]) -> str:
    """Return how many of each verdict, the worst first: `1 promise broken, 2 leaks`. Attacks that
    were not mounted are counted last."""
    tried = [finding for finding in findings if not finding.unmet]
    counts = [(word, sum(f.verdict == word for f in tried)) for word in WORST_FIRST]
    said = [f"{count} {VERDICT_WORDS[word]}" for word, count in counts if count]
    if len(tried) < len(findings):
        said.append(f"{len(findings) - len(tried)} not tried on this run")
    return ", ".join(said) or "nothing was checked"


def _verdict_rank(verdict: str) -> int:
    return next((k for k, one in enumerate(WORST_FIRST) if one == verdict), len(WORST_FIRST))


@dataclass(frozen=True)
class ForestRow:
    """A finding with its anchor, and its places on the axis in percents of the width."""

    finding: Finding
    anchor: str
    low: float
    width: float
    dot: float


@dataclass(frozen=True)
class Forest:
    """A forest plot: the rows, the place of a gain of zero, and (place, text) of the ticks."""

    rows: tuple[ForestRow, ...]
    zero: float
    ticks: tuple[tuple[float, str], ...]


def make_forest(findings: Sequence[Finding] | None) -> Forest | None:
    """Return the plot, or None if no gain was measured."""
    shown = [f for f in rank_findings(findings or ()) if f.gain is not None]
    if not shown:
        return None
    low = min(-0.1, *(f.gain.low for f in shown if f.gain))
    high = max(0.1, *(f.gain.high for f in shown if f.gain))
    low, high = max(-1.0, low), min(1.0, high)

    def place(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / (high - low), 2)

    step = 0.5 if high - low > 1 else 0.2 if high - low > 0.5 else 0.1
    marks = [k * step for k in range(-10, 11) if low <= k * step <= high]
    return Forest(
        rows=tuple(_forest_row(f, place) for f in shown),
        zero=place(0),
        ticks=tuple((place(mark), "0" if mark == 0 else signed(mark)) for mark in marks),
    )


def _forest_row(finding: Finding, place: Callable[[float], float]) -> ForestRow:
    assert finding.gain is not None
    low, high, dot = (
        place(value) for value in (finding.gain.low, finding.gain.high, finding.gain.value)
    )
    anchor = finding_anchor(finding.attack, finding.adversary)
    return ForestRow(finding, anchor, low, round(high - low, 2), dot)
