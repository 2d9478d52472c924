"""The page of a curve: one file that opens from disk, drawn from `CurveData` and `Timing` alone."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_atomically
from securefg.reports.curve.accuracy import accuracy_figure, trade_figure
from securefg.reports.curve.bounds import bounds_figure, cost_figures
from securefg.reports.curve.data import CurveData, Series, Timing
from securefg.reports.curve.leakage import leak_figures, unmeasured
from securefg.reports.curve.marks import Marks
from securefg.reports.curve.tables import failures, point_rows, sights, violations
from securefg.reports.curve.verdict import cards, limit_words
from securefg.reports.curve.words import defence_note, defence_words, score_words
from securefg.reports.figures.canvas import Figure
from securefg.reports.page import build_report
from securefg.reports.templating import page_environment
from securefg.run.folder import RunFolder


@dataclass(frozen=True)
class SeriesFigures:
    """All drawings of one series."""

    name: str
    accuracy: Figure
    trade: Figure
    leaks: tuple[Figure, ...]
    unmeasured: tuple[tuple[str, str], ...]
    bounds: Figure | None
    cost: tuple[Figure, ...]


def build_curve_page(data: CurveData, timing: Timing, path: Path) -> Path:
    """Write the page. Its links lead to `runs/<folder>/report.html` beside it.

    Runs there whose page is missing, or older than their audit, get one. The same data and timing
    give the same bytes; the data block is `CurveData` as JSON.
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
    """The page as text. Everything that comes from the data is escaped."""
    marks = Marks(data)
    return (
        page_environment()
        .get_template("curve.html")
        .render(
            data=data,
            timing=timing,
            limits=limit_words(data.limits),
            cards=cards(data, marks),
            failures=failures(data),
            violations=violations(data),
            series=[_figures(data, timing, one, marks) for one in data.series],
            defences=[(defence_words(d), defence_note(d)) for d in _defences(data)],
            sights=sights(data, marks),
            points=point_rows(data, timing, marks),
            score=score_words(data.points),
            data_block=_block(data.model_dump(mode="json", by_alias=True)),
            timing_block=_block(timing.model_dump(mode="json")),
        )
    )


def _figures(data: CurveData, timing: Timing, series: Series, marks: Marks) -> SeriesFigures:
    return SeriesFigures(
        series.name,
        accuracy_figure(data, series, marks),
        trade_figure(data, series, marks),
        tuple(leak_figures(data, series, marks)),
        tuple(unmeasured(data, series)),
        bounds_figure(data, series, marks),
        tuple(cost_figures(data, timing, series, marks)),
    )


def _defences(data: CurveData) -> list[str]:
    return list(dict.fromkeys(point.defence for point in data.points))


def _block(tree: Any) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(tree, allow_nan=False, ensure_ascii=True)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe)
