"""Leakage against epsilon: a small panel per attack and adversary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from securefg.foundation.units import significant
from securefg.reports.curve.data import CurveData, CurvePoint, Leak, Series
from securefg.reports.curve.marks import (
    Marks,
    epsilon,
    epsilon_cell,
    epsilon_side,
    limit_guides,
    of,
    run_cell,
)
from securefg.reports.curve.words import (
    VERDICT_WORDS,
    adversary_words,
    attack_words,
    by_whom,
    defence_words,
    gain_words,
    setting_words,
    short_signed,
    signed,
)
from securefg.reports.figures.canvas import Cell, Figure, Table
from securefg.reports.figures.plot import Mark, Plot, Side, draw_plot

HEIGHT = 225.0

Found = Sequence[tuple[CurvePoint, Leak]]


def leak_figures(data: CurveData, series: Series, marks: Marks) -> Iterator[Figure]:
    """A panel wherever something was measured."""
    for found in _by_attack(data, series):
        if any(leak.gain is not None for _, leak in found):
            yield _panel(data, series, marks, found)


def unmeasured(data: CurveData, series: Series) -> Iterator[tuple[str, str]]:
    """(attack and adversary, why) of what could not be measured at any setting."""
    for found in _by_attack(data, series):
        if all(leak.gain is None for _, leak in found):
            yield by_whom(found[0][1]), found[0][1].because


def _by_attack(data: CurveData, series: Series) -> Iterator[Found]:
    points = of(data, series.name, lambda point: not point.failed)
    pairs = dict.fromkeys((leak.attack, leak.adversary) for p in points for leak in p.leaks)
    for attack, adversary in pairs:
        yield [
            (point, leak)
            for point in points
            for leak in point.leaks
            if (leak.attack, leak.adversary) == (attack, adversary)
        ]


def _panel(data: CurveData, series: Series, marks: Marks, found: Found) -> Figure:
    first = found[0][1]
    title = f"{attack_words(first.attack)}, by {adversary_words(first.adversary)}"
    title = title[:1].upper() + title[1:]
    known = [(point, leak) for point, leak in found if leak.gain is not None]
    leaks = {point.key: leak for point, leak in known}
    points = [point for point, _ in known]
    said = " ".join(f"{setting_words(point)}: {gain_words(leak)}." for point, leak in known)
    plot = Plot(
        label=f"{title}: gain over the prior against epsilon, {series.name}. {said}",
        x=epsilon_side(points),
        y=Side("gain over the prior", short_signed, covered=(0.0,)),
        traces=marks.traces(points, lambda point: _mark(point, leaks[point.key], marks)),
        guides=limit_guides(data),
        band=_null_band(known),
    )
    return Figure(
        title,
        _caption(first, len(found) - len(known), len(found)),
        draw_plot(plot, height=HEIGHT),
        table=_table(found),
        file=f"{series.name} {title}",
    )


def _mark(point: CurvePoint, leak: Leak, marks: Marks) -> Mark:
    assert leak.gain is not None
    lines = [setting_words(point), f"gain {gain_words(leak)}"]
    if leak.value is not None and leak.prior is not None:
        lines.append(f"reached {significant(leak.value.value)}, prior {significant(leak.prior)}")
    lines.append(VERDICT_WORDS.get(leak.verdict, leak.verdict))
    return Mark(
        epsilon(point),
        leak.gain.value,
        "\n".join(lines),
        f"#{marks.anchor(point)}",
        leak.gain.low,
        leak.gain.high,
        tone="bad" if leak.verdict == "VIOLATION" else "chosen" if marks.is_chosen(point) else "",
    )


def _null_band(known: Found) -> tuple[tuple[float, float, float], ...]:
    """At every epsilon, the widest null of the points there."""
    widest: dict[float, tuple[float, float]] = {}
    for point, leak in known:
        if leak.null is not None:
            low, high = widest.get(epsilon(point), (leak.null.low, leak.null.high))
            widest[epsilon(point)] = min(low, leak.null.low), max(high, leak.null.high)
    return tuple((x, low, high) for x, (low, high) in sorted(widest.items()))


def _caption(leak: Leak, unknown: int, all_: int) -> str:
    metric = leak.metric[:1].upper() + leak.metric[1:]
    lost = f" Not measured at {unknown} of {all_} settings." if unknown else ""
    return f"{metric}, per {leak.unit or 'run'}.{lost}"


def _table(found: Found) -> Table:
    rows = tuple(
        (
            Cell(defence_words(point.defence), point.defence),
            epsilon_cell(point),
            *_numbers(leak),
            Cell(VERDICT_WORDS.get(leak.verdict, leak.verdict), leak.verdict, number=False),
            run_cell(point.runs),
        )
        for point, leak in found
    )
    figures = ("reached", "prior", "gain", "low", "high", "most exposed", "basis")
    return Table(("setting", "epsilon", *figures, "verdict", "runs"), rows)


def _numbers(leak: Leak) -> tuple[Cell, ...]:
    if leak.gain is None:
        return (Cell("–", ""),) * 7
    return (
        _cell(None if leak.value is None else leak.value.value),
        _cell(leak.prior),
        *(Cell(signed(v), repr(v)) for v in (leak.gain.value, leak.gain.low, leak.gain.high)),
        Cell("–", "") if leak.most_exposed is None else Cell(signed(leak.most_exposed)),
        Cell(leak.basis or "–", leak.basis, number=False),
    )


def _cell(value: float | None) -> Cell:
    return Cell("–", "") if value is None else Cell(significant(value), repr(value))
