"""The page of a curve: one file that opens from disk, drawn from `CurveData` and `Timing` alone."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from audits.curves.accuracy import accuracy_figure, trade_figure
from audits.curves.cards import limit_words, make_cards
from audits.curves.doubts import not_covered
from audits.curves.leakage import (
    bounds_figure,
    cost_figures,
    is_broken,
    leak_figures,
    unmeasured_attacks,
)
from audits.curves.marks import Marks, report_link
from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_atomically
from securefg.foundation.units import significant
from securefg.reports.curve_data import CurveData, CurvePoint, Leak, Series, Timing
from securefg.reports.figures.canvas import Figure
from securefg.reports.findings_section import finding_anchor
from securefg.reports.page import build_report
from securefg.reports.templating import render_page
from securefg.reports.words import (
    VERDICT_WORDS,
    accuracy_spread,
    attack_words,
    by_whom,
    capitalise_words,
    defence_note,
    defence_words,
    gain_spread,
    gain_words,
    largest_leak,
    score_words,
    setting_words,
    signed,
)
from securefg.runs.folder import RunFolder


@dataclass(frozen=True)
class Sight:
    """A view of what each adversary sees in one series.

    measures  (attack, unit, metric): what its numbers mean
    """

    series: str
    adversaries: tuple[str, ...]
    points: list[CurvePoint]
    measures: tuple[tuple[str, str, str], ...]


def _series_sight(data: CurveData, series: Series) -> Sight:
    points = [point for point in data.points if point.series == series.name]
    every = [leak for point in points for leak in point.leaks]
    measures = {attack_words(leak.attack): (leak.unit or "run", leak.metric) for leak in every}
    meant = tuple((attack, *meaning) for attack, meaning in measures.items())
    return Sight(series.name, tuple(dict.fromkeys(one.adversary for one in every)), points, meant)


def strength_words(leak: Leak) -> str:
    """Return how much was recovered, in a few words."""
    if leak.verdict != "LEAK":
        return VERDICT_WORDS.get(leak.verdict, leak.verdict)
    if leak.gain is None or leak.value is None or leak.prior is None:
        return "leak"
    if leak.prior >= 1 or not 0 <= leak.value.value <= 1:
        return "leak"  # a metric that does not end at 1 says nothing about shares
    share = leak.gain.value / (1 - leak.prior)
    for floor, words in ((0.9, "recovered"), (0.5, "mostly recovered"), (0.1, "partly recovered")):
        if share >= floor:
            return words
    return "a trace"


def seen_words(leak: Leak) -> str:
    """Return the numbers of a leak in words, and how sure they are."""
    if leak.gain is None or leak.value is None:
        return leak.because
    before = "" if leak.prior is None else f"{significant(leak.prior)} → "
    basis = f", {leak.basis}" if leak.basis else ""
    most = leak.most_exposed
    exposed = "" if most is None else f"; most exposed target {signed(most)}"
    return f"{before}{significant(leak.value.value)}, gain {gain_words(leak)}{basis}{exposed}"


@dataclass(frozen=True)
class SeriesFigures:
    """A set of all drawings of one series."""

    name: str
    accuracy: Figure
    trade: Figure
    leaks: tuple[Figure, ...]
    unmeasured: tuple[tuple[str, str], ...]
    bounds: Figure | None
    cost: tuple[Figure, ...]


def build_curve_page(data: CurveData, timing: Timing, path: Path) -> Path:
    """Write the page and return its path. Its links lead to `runs/<folder>/report.html` beside it.

    Runs there whose page is missing, or older than their audit, get one. The same data and timing
    give the same bytes. The data block is `CurveData` as JSON.
    """
    folders = {run.folder for point in data.points for run in point.runs}
    levels = {run.folder for one in data.series for run in one.centralised_runs + one.alone_runs}
    for folder in sorted(folders | levels):
        _bring_up_to_date(path.parent / "runs" / folder)
    write_atomically(path, render_curve(data, timing))
    return path


def _bring_up_to_date(run: Path) -> None:
    report, findings = run / "report.html", run / "audit" / "findings.json"
    if not (run / "summary.json").is_file():
        return
    written = [path.stat().st_mtime_ns for path in (report, findings) if path.is_file()]
    if report.is_file() and written[0] == max(written):
        return
    try:
        build_report(RunFolder.open(run))
    except RunFolderError as error:
        warnings.warn(f"{run.name} gets no page: {error}", stacklevel=3)


def render_curve(data: CurveData, timing: Timing) -> str:
    """Return the page as text. Everything that comes from the data is escaped."""
    marks = Marks(data)
    return render_page(
        "curve.html",
        data=data,
        timing=timing,
        limits=limit_words(data.limits),
        cards=make_cards(data, marks),
        series=[_series_figures(data, timing, one, marks) for one in data.series],
        defences=[(defence_words(d), defence_note(d)) for d in _defence_names(data)],
        sights=[_series_sight(data, one) for one in data.series],
        marks=marks,
        setting=setting_words,
        capital=capitalise_words,
        strength=strength_words,
        seen_words=seen_words,
        finding_anchor=finding_anchor,
        report_link=report_link,
        largest_leak=largest_leak,
        accuracy_spread=accuracy_spread,
        gain_spread=gain_spread,
        by_whom=by_whom,
        not_covered=not_covered,
        is_broken=is_broken,
        score=score_words(data.points),
        data_block=_json_block(data.model_dump(mode="json", by_alias=True)),
        timing_block=_json_block(timing.model_dump(mode="json")),
    )


def _series_figures(data: CurveData, timing: Timing, series: Series, marks: Marks) -> SeriesFigures:
    return SeriesFigures(
        series.name,
        accuracy_figure(data, series, marks),
        trade_figure(data, series, marks),
        tuple(leak_figures(data, series, marks)),
        tuple(unmeasured_attacks(data, series)),
        bounds_figure(data, series, marks),
        tuple(cost_figures(data, timing, series, marks)),
    )


def _defence_names(data: CurveData) -> list[str]:
    return list(dict.fromkeys(point.defence for point in data.points))


def _json_block(tree: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(tree, allow_nan=False, ensure_ascii=True)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe)
