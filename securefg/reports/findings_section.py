"""The findings of an audit as a section of a run's page: the worst first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from securefg.foundation.interval import Interval
from securefg.foundation.units import number, plural, significant
from securefg.reports.curve.words import VERDICT_WORDS, adversary_words, attack_words, signed
from securefg.run.findings import WORST_FIRST, Finding, Group


def finding_anchor(attack: str, adversary: str) -> str:
    """Where a finding stands on its run's page."""
    return "finding-" + re.sub(r"[^a-z0-9]+", "-", f"{attack} {adversary}".lower()).strip("-")


@dataclass(frozen=True)
class GroupLine:
    """How exposed one group of targets is."""

    name: str
    targets: str
    reached: str
    spread: str


@dataclass(frozen=True)
class FindingLine:
    """One finding in words. `gain` and what follows are empty where nothing was measured."""

    anchor: str
    tone: str
    verdict: str
    attack: str
    adversary: str
    metric: str
    unit: str
    because: str
    reached: str
    prior: str
    gain: str
    spread: str
    basis: str
    off: str
    targets: str
    assumptions: tuple[str, ...]
    groups: tuple[GroupLine, ...] = ()
    top_ten: str = ""


@dataclass(frozen=True)
class ClaimLine:
    """A claimed epsilon beside what was measured."""

    what: str
    claimed: str
    measured: str
    broken: bool
    because: str


@dataclass(frozen=True)
class FindingsSection:
    sentence: str
    lines: tuple[FindingLine, ...]
    claims: tuple[ClaimLine, ...]


def findings_section(findings: Sequence[Finding] | None) -> FindingsSection | None:
    """None where the run was not audited."""
    if findings is None:
        return None
    ordered = sorted(findings, key=lambda one: _rank(one.verdict))
    claims = [one for one in ordered if one.epsilon_claimed is not None]
    lines = tuple(
        _line(one, anchor) for one, anchor in zip(ordered, _anchors(ordered), strict=True)
    )
    return FindingsSection(_sentence(findings), lines, tuple(_claim(one) for one in claims))


def _anchors(findings: Sequence[Finding]) -> list[str]:
    """One for each: an attack may be played on several fields, and a number tells those apart."""
    given: list[str] = []
    for one in findings:
        plain = finding_anchor(one.attack, one.adversary)
        before = sum(other == plain or other.startswith(f"{plain}--") for other in given)
        given.append(f"{plain}--{before + 1}" if before else plain)
    return given


def count_words(findings: Sequence[Finding]) -> str:
    """How many of each verdict, the worst first: `1 promise broken, 2 leaks`."""
    counts = [(word, sum(f.verdict == word for f in findings)) for word in WORST_FIRST]
    said = [f"{count} {VERDICT_WORDS[word]}" for word, count in counts if count]
    return ", ".join(said) or "nothing was checked"


def _rank(verdict: str) -> int:
    return next((k for k, one in enumerate(WORST_FIRST) if one == verdict), len(WORST_FIRST))


def _sentence(findings: Sequence[Finding]) -> str:
    return f"{plural(len(findings), 'finding')}: {count_words(findings)}."


def _line(one: Finding, anchor: str) -> FindingLine:
    spread = f"{signed(one.gain.low)} to {signed(one.gain.high)}" if one.gain else ""
    return FindingLine(
        anchor=anchor,
        tone=one.verdict.lower(),
        verdict=VERDICT_WORDS.get(one.verdict, one.verdict),
        attack=attack_words(one.attack),
        adversary=adversary_words(one.adversary),
        metric=one.metric,
        unit=one.unit,
        because=one.words,
        reached=_value(one.value),
        prior=_value(one.prior),
        gain=signed(one.gain.value) if one.gain else "",
        spread=spread,
        basis=one.basis if one.gain else "",
        off=signed(one.positive.value) if one.positive else "",
        targets=number(one.targets) if one.targets else "",
        assumptions=one.assumptions,
        groups=tuple(_group(group) for group in one.groups),
        top_ten=_top_ten(one),
    )


def _group(group: Group) -> GroupLine:
    low, high = significant(group.value.low), significant(group.value.high)
    targets = plural(group.targets, "target")
    return GroupLine(group.name, targets, significant(group.value.value), f"{low} to {high}")


def _top_ten(one: Finding) -> str:
    """How far the ten most exposed stand out; who they are is on no page."""
    found, prior = (one.details.get(name) for name in ("top_ten", "top_ten_prior"))
    if found is None or prior is None:
        return ""
    return (
        f"The ten most exposed reach {significant(found)} on average, where the best ten of the "
        f"prior reach {significant(prior)}."
    )


def _value(figure: Interval | None) -> str:
    return "" if figure is None else significant(figure.value)


def _claim(one: Finding) -> ClaimLine:
    return ClaimLine(
        what=one.metric,
        claimed=significant(one.epsilon_claimed or 0.0),
        measured="not measured" if one.epsilon_lower is None else significant(one.epsilon_lower),
        broken=one.verdict == "VIOLATION",
        because=one.words,
    )
