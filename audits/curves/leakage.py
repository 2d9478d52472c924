"""Leakage against epsilon, measured bounds against claims, and what each defence costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from audits.curves.marks import (
    Marks,
    epsilon_cell,
    epsilon_side,
    limit_guides,
    points_of,
    promised_epsilon,
    run_cell,
    trace_legend,
)
from securefg.foundation.units import bytes_text, seconds_text, significant
from securefg.reports.curve_data import CurveData, CurvePoint, Leak, Series, Timing
from securefg.reports.figures.canvas import Cell, Figure, Table
from securefg.reports.figures.charts import BarChart, Row, draw_bars
from securefg.reports.figures.plot import Mark, Plot, Side, draw_plot
from securefg.reports.words import (
    VERDICT_WORDS,
    adversary_words,
    attack_words,
    by_whom,
    capitalise_words,
    defence_words,
    gain_words,
    setting_words,
    short_signed,
    signed,
)

HEIGHT = 225.0

Found = Sequence[tuple[CurvePoint, Leak]]


def leak_figures(data: CurveData, series: Series, marks: Marks) -> Iterator[Figure]:
    """Yield a panel for every attack and adversary with a measurement."""
    for found in _by_attack(data, series):
        if any(leak.gain is not None for _, leak in found):
            yield _attack_panel(data, series, marks, found)


def unmeasured_attacks(data: CurveData, series: Series) -> Iterator[tuple[str, str]]:
    """Yield (attack and adversary, reason) for every attack that could be measured at no
    setting."""
    for found in _by_attack(data, series):
        if all(leak.gain is None for _, leak in found):
            yield by_whom(found[0][1]), found[0][1].because


def _by_attack(data: CurveData, series: Series) -> Iterator[Found]:
    points = points_of(data, series.name, lambda point: not point.failed)
    pairs = dict.fromkeys((leak.attack, leak.adversary) for p in points for leak in p.leaks)
    for attack, adversary in pairs:
        yield [
            (point, leak)
            for point in points
            for leak in point.leaks
            if (leak.attack, leak.adversary) == (attack, adversary)
        ]


def _attack_panel(data: CurveData, series: Series, marks: Marks, point_leaks: Found) -> Figure:
    first = point_leaks[0][1]
    title = f"{attack_words(first.attack)}, by {adversary_words(first.adversary)}"
    title = capitalise_words(title)
    known = [(point, leak) for point, leak in point_leaks if leak.gain is not None]
    leaks = {point.key: leak for point, leak in known}
    points = [point for point, _ in known]
    said = " ".join(f"{setting_words(point)}: {gain_words(leak)}." for point, leak in known)
    plot = Plot(
        label=f"{title}: gain over the prior against epsilon, {series.name}. {said}",
        x=epsilon_side(points),
        y=Side("gain over the prior", short_signed, covered=(0.0,)),
        traces=marks.defence_traces(
            points, lambda point: _leak_mark(point, leaks[point.key], marks)
        ),
        guides=limit_guides(data),
        band=_null_band(known),
    )
    return Figure(
        title,
        _leak_caption(first, len(point_leaks) - len(known), len(point_leaks)),
        draw_plot(plot, height=HEIGHT),
        table=_leak_table(point_leaks),
        file=f"{series.name} {title}",
    )


def _leak_mark(point: CurvePoint, leak: Leak, marks: Marks) -> Mark:
    assert leak.gain is not None
    lines = [setting_words(point), f"gain {gain_words(leak)}"]
    if leak.value is not None and leak.prior is not None:
        lines.append(f"reached {significant(leak.value.value)}, prior {significant(leak.prior)}")
    lines.append(VERDICT_WORDS.get(leak.verdict, leak.verdict))
    return Mark(
        promised_epsilon(point),
        leak.gain.value,
        "\n".join(lines),
        f"#{marks.row_anchor(point)}",
        leak.gain.low,
        leak.gain.high,
        tone="bad" if leak.verdict == "VIOLATION" else "chosen" if marks.is_chosen(point) else "",
    )


def _null_band(known: Found) -> tuple[tuple[float, float, float], ...]:
    """Return at every epsilon the widest null of the points there."""
    widest: dict[float, tuple[float, float]] = {}
    for point, leak in known:
        if leak.null is not None:
            low, high = widest.get(promised_epsilon(point), (leak.null.low, leak.null.high))
            widest[promised_epsilon(point)] = min(low, leak.null.low), max(high, leak.null.high)
    return tuple((x, low, high) for x, (low, high) in sorted(widest.items()))


def _leak_caption(leak: Leak, unknown: int, all_: int) -> str:
    lost = f" Not measured at {unknown} of {all_} settings." if unknown else ""
    return f"{capitalise_words(leak.metric)}, per {leak.unit or 'run'}.{lost}"


def _leak_table(point_leaks: Found) -> Table:
    rows = tuple(
        (
            Cell(defence_words(point.defence), point.defence),
            epsilon_cell(point),
            *_leak_cells(leak),
            Cell(VERDICT_WORDS.get(leak.verdict, leak.verdict), leak.verdict, number=False),
            run_cell(point.runs),
        )
        for point, leak in point_leaks
    )
    figures = ("reached", "prior", "gain", "low", "high", "most exposed", "basis")
    return Table(("setting", "epsilon", *figures, "verdict", "runs"), rows)


def _leak_cells(leak: Leak) -> tuple[Cell, ...]:
    if leak.gain is None:
        return (Cell("–", ""),) * 7
    return (
        _value_cell(None if leak.value is None else leak.value.value),
        _value_cell(leak.prior),
        *(Cell(signed(v), repr(v)) for v in (leak.gain.value, leak.gain.low, leak.gain.high)),
        Cell("–", "") if leak.most_exposed is None else Cell(signed(leak.most_exposed)),
        Cell(leak.basis or "–", leak.basis, number=False),
    )


def _value_cell(value: float | None) -> Cell:
    return Cell("–", "") if value is None else Cell(significant(value), repr(value))


BOUNDS_HEIGHT = 320.0


def bounds_figure(data: CurveData, series: Series, marks: Marks) -> Figure | None:
    """Return the figure of measured bounds against claims, or None if no claim was tested."""
    points = points_of(
        data, series.name, lambda p: bool(p.epsilon_claimed) and p.epsilon_lower is not None
    )
    if not points:
        return None
    broken = sum(is_broken(point) for point in points)
    verdict = f"{broken} of {len(points)} above the claim" if broken else "none above the claim"
    traces = marks.defence_traces(points, lambda point: _bound_mark(point, marks), joined=False)
    plot = Plot(
        label=f"Measured lower bound against claimed epsilon, {series.name}: {verdict}.",
        x=Side("claimed epsilon", significant, True),
        y=Side("measured lower bound", significant, True),
        traces=traces,
        diagonal=True,
    )
    return Figure(
        "Measured against claimed epsilon",
        f"{capitalise_words(verdict)}. At every setting the mechanism that comes nearest "
        "to its claim is shown.",
        draw_plot(plot, height=BOUNDS_HEIGHT),
        trace_legend(traces),
        table=_bound_table(points),
        file=f"{series.name} epsilon measured and claimed",
    )


def is_broken(point: CurvePoint) -> bool:
    """Return whether a promise was found broken here, or the measured bound lies above the
    claim."""
    above = (
        point.epsilon_lower is not None
        and point.epsilon_claimed is not None
        and point.epsilon_lower > point.epsilon_claimed
    )
    return above or bool(point.violations)


def _bound_mark(point: CurvePoint, marks: Marks) -> Mark:
    assert point.epsilon_claimed is not None
    assert point.epsilon_lower is not None
    lines = [
        setting_words(point),
        f"claimed {significant(point.epsilon_claimed)}",
        f"measured at least {significant(point.epsilon_lower)}",
        *point.violations,
    ]
    return Mark(
        point.epsilon_claimed,
        point.epsilon_lower,
        "\n".join(lines),
        f"#{marks.row_anchor(point)}",
        tone="bad" if is_broken(point) else "",
    )


def _bound_table(points: Sequence[CurvePoint]) -> Table:
    rows = tuple(
        (
            Cell(setting_words(point), point.key, number=False),
            Cell(significant(point.epsilon_claimed or 0), repr(point.epsilon_claimed)),
            Cell(significant(point.epsilon_lower or 0), repr(point.epsilon_lower)),
            Cell("refuted" if is_broken(point) else "holds"),
            run_cell(point.runs),
        )
        for point in points
    )
    return Table(("setting", "claimed", "measured lower bound", "claim", "runs"), rows)


def cost_figures(data: CurveData, timing: Timing, series: Series, marks: Marks) -> Iterator[Figure]:
    """Yield figures of bytes sent up, bytes sent down and time. A cost that is known at no point
    has none."""
    points = points_of(data, series.name, lambda point: not point.failed)
    for title, value, text, caption in _cost_kinds(timing):
        known = [point for point in points if value(point) is not None]
        if known:
            yield _cost_figure(title, caption, known, value, text, series, marks)


def _cost_kinds(
    timing: Timing,
) -> tuple[tuple[str, Callable[[CurvePoint], float | None], Callable[[float], str], str], ...]:
    all_clients = "of all clients together, in one run, envelopes included"
    return (
        ("Sent up", lambda p: p.bytes_up, bytes_text, f"Bytes {all_clients}."),
        ("Sent down", lambda p: p.bytes_down, bytes_text, f"Bytes {all_clients}."),
        (
            "Time",
            lambda p: timing.seconds.get(p.key),
            seconds_text,
            "Seconds of one run on the machine named below; differs from one making to the next.",
        ),
    )


def _cost_figure(
    title: str,
    caption: str,
    points: Sequence[CurvePoint],
    value: Callable[[CurvePoint], float | None],
    text: Callable[[float], str],
    series: Series,
    marks: Marks,
) -> Figure:
    defences = dict.fromkeys(point.defence for point in points)
    means = {
        defence: statistics.fmean(value(p) or 0.0 for p in points if p.defence == defence)
        for defence in defences
    }
    rows = tuple(Row(defence_words(d), (mean,), marks.colour(d)) for d, mean in means.items())
    said = ", ".join(f"{defence_words(d)} {text(mean)}" for d, mean in means.items())
    chart = BarChart(f"{title}, {series.name}: {said}.", rows, (title.lower(),), "", text=text)
    table = tuple(
        (
            Cell(p.key, number=False),
            Cell(text(value(p) or 0.0), repr(value(p))),
            run_cell(p.runs),
        )
        for p in points
    )
    strengths = " Means over all strengths of a defence." if len(points) > len(means) else ""
    return Figure(
        title,
        caption + strengths,
        draw_bars(chart),
        table=Table(("point", title.lower(), "runs"), table),
        file=f"{series.name} {title}",
    )
