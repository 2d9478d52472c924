"""The plot of one cell: what guessing reaches, and what each attack reaches beyond it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from audits.answer.model import Cell, Evidence
from audits.answer.sentences import figures_text
from securefg.reports.words import signed

STEPS = (0.25, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class PlotRow:
    """An attack. Places are in percents of the width.

    prior       where guessing ends, or None where the attack has no prior
    left, span  the bar from the prior to the value
    low, width  the interval of the gain, from the prior on
    figures     the same in words
    """

    one: Evidence
    prior: float | None
    left: float
    span: float
    low: float
    width: float
    dot: float
    figures: str


@dataclass(frozen=True)
class CellPlot:
    """A plot of the attacks of one cell, and (place, text) of the ticks."""

    rows: tuple[PlotRow, ...]
    ticks: tuple[tuple[float, str], ...]


def plot_cell(cell: Cell) -> CellPlot | None:
    """Return the plot of a cell, or None if no attack measured a gain."""
    shown = [one for one in cell.evidence if one.gain is not None]
    if not shown:
        return None
    ends = [end for one in shown for end in _gain_ends(one)]
    low, high = min(0.0, *ends), max(1.0, *ends)

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    ticks = tuple((place(mark), f"{mark:g}") for mark in _axis_marks(low, high))
    return CellPlot(tuple(_plot_row(one, place) for one in shown), ticks)


def _gain_ends(one: Evidence) -> tuple[float, ...]:
    base = _prior_base(one)
    assert one.gain is not None
    return base, base + one.gain.low, base + one.gain.high, base + one.gain.value


def _prior_base(one: Evidence) -> float:
    return one.prior.value if one.prior else 0.0


def _axis_marks(low: float, high: float) -> Sequence[float]:
    step = next((step for step in STEPS if (high - low) / step <= 6), (high - low) / 5)
    first, last = int(low // step), int(high // step)
    return [k * step for k in range(first, last + 1) if low <= k * step <= high]


def _plot_row(evidence: Evidence, place: Callable[[float], float]) -> PlotRow:
    assert evidence.gain is not None
    base = _prior_base(evidence)
    start, end = sorted((place(base), place(base + evidence.gain.value)))
    low, high = place(base + evidence.gain.low), place(base + evidence.gain.high)
    return PlotRow(
        evidence,
        place(base) if evidence.prior else None,
        start,
        round(end - start, 2),
        low,
        round(high - low, 2),
        place(base + evidence.gain.value),
        describe_figures(evidence),
    )


def describe_figures(evidence: Evidence) -> str:
    """Return guessing, value and gain with its interval, in words, or empty if none is known."""
    if evidence.gain is None:
        return ""
    step = (
        figures_text(evidence.prior.value, evidence.value.value)
        if evidence.prior and evidence.value
        else ""
    )
    gain = f"gain {signed(evidence.gain.value)}"
    spread = (
        f" ({signed(evidence.gain.low)} to {signed(evidence.gain.high)})"
        if evidence.gain.high > evidence.gain.low
        else ""
    )
    return ", ".join(filter(None, (step, gain + spread)))
