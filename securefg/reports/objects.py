"""Results as objects: what `securefg.run`, `audit` and `curve` return, for notebooks and code."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from audits.answer.build import answer_of
from audits.answer.model import Answer
from audits.findings.record import Finding, Verdict
from audits.findings.stored import findings_of
from securefg.foundation.errors import InputError, SecurefgError
from securefg.foundation.extensions import only_known_modules
from securefg.foundation.units import epsilon_text
from securefg.reports.answer_views import short_text, table_html, table_rows
from securefg.reports.curve_data import CurveData, CurvePoint
from securefg.reports.figures.canvas import standalone_svg
from securefg.reports.page import build_report
from securefg.reports.results import read_results, rounds_of
from securefg.reports.run_figures import draw_curves
from securefg.reports.words import score_words
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport
from securefg.runs.scores import monitored_name, no_skill, score_of
from securefg.runs.summary import Summary
from securefg.settings.config import RunConfig

SHORT = ("round", "train_loss", "val_loss", "val_accuracy", "test_accuracy")
"""The columns of a short view of the rounds."""
MOST_CHOICES = 6


@dataclass(frozen=True, repr=False)
class RunResult:
    """A finished run.

    trusted  whether modules that its config names are imported; else one that was not is refused
    """

    path: Path
    summary: Summary
    trusted: bool = False

    @classmethod
    def of(cls, folder: RunFolder, trusted: bool = False) -> RunResult:
        """Return the result of a finished run's folder."""
        return cls(folder.path, folder.summary(), trusted)

    @property
    def config(self) -> RunConfig:
        """Return the resolved config. It imports modules only where they are trusted."""
        with only_known_modules(unless=self.trusted):
            return RunFolder(self.path).config()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of this run's audits, or nothing if there was none."""
        return findings_of(self.path, self.summary.transcript_chain) or ()

    def metrics(self) -> tuple[RoundReport, ...]:
        """Return one report per round."""
        return rounds_of(RunFolder(self.path))

    def __repr__(self) -> str:
        summary = self.summary
        lines = [
            f"RunResult {summary.name}: {summary.method} on {summary.dataset}, seed {summary.seed}",
            f"  rounds         {summary.rounds} ({summary.stopped}), best {summary.best_round}",
            *(f"  {name:14} {value}" for name, value in self._score_lines()),
            *(f"  {name:14} {value}" for name, value in self._claim_lines()),
            f"  folder         {self.path}",
        ]
        return "\n".join(lines)

    def _score_lines(self) -> list[tuple[str, str]]:
        """Return the test score that the run monitors, beside that of always naming one class."""
        try:
            score = monitored_name(self.config, self.summary)
        except (SecurefgError, OSError):  # the folder is gone, and its config with it
            score = "accuracy"
        found = no_skill(self.summary.test_scores, score)
        beside = "" if found is None else f" (one class {_share(found)})"
        return [(f"test {score.replace('_', ' ')}", _share(score_of(self.summary, score)) + beside)]

    def _claim_lines(self) -> list[tuple[str, str]]:
        claims = self.summary.epsilon.items()
        return [(f"epsilon/{unit}", epsilon_text(claim.epsilon)) for unit, claim in claims]

    def to_frame(self, short: bool = False) -> Any:
        """Return a pandas row per round. `epsilon_UNIT` is infinite where nothing is promised.

        short  only the round, the losses, the scores and the epsilons
        """
        rows = []
        for report in self.metrics():
            row = {k: v for k, v in asdict(report).items() if k not in ("epsilon", "extra")}
            epsilons = {f"epsilon_{u}": _epsilon_number(e) for u, e in report.epsilon.items()}
            kept = {k: v for k, v in row.items() if k in SHORT} if short else row
            rows.append({**kept, **epsilons, **({} if short else report.extra)})
        return frame(rows)

    def figures(self) -> dict[str, str]:
        """Return SVG by title, each a file of its own: accuracy, loss, bytes, finite epsilons."""
        with only_known_modules(unless=self.trusted):
            drawn = draw_curves(read_results(RunFolder(self.path)))
        return {figure.title: standalone_svg(figure) for figure in drawn}

    def report(self) -> Path:
        """Return the page, made anew."""
        with only_known_modules(unless=self.trusted):
            return build_report(RunFolder(self.path))

    def _repr_html_(self) -> str:
        summary = self.summary
        rows: list[tuple[str, str]] = [
            ("rounds", f"{summary.rounds} ({summary.stopped}), best {summary.best_round}"),
            *self._score_lines(),
        ]
        for unit, claim in summary.epsilon.items():
            beside = f"; not covered: {'; '.join(claim.not_covered)}" if claim.not_covered else ""
            rows.append((f"epsilon per {unit}", claim.bound(unit) + beside))
        drawn = "".join(self.figures().values()) if summary.rounds else ""
        title = f"{summary.method} on {summary.dataset}, seed {summary.seed}"
        return f"<h4>{escape(title)}</h4>{to_table(('', ''), rows)}{drawn}"


@dataclass(frozen=True, repr=False)
class AuditResult:
    """A result of an audit, over everything that this folder has been asked.

    failed  attacks that broke off, each with its reason; they are findings too, INCONCLUSIVE
    """

    path: Path
    findings: tuple[Finding, ...]
    failed: tuple[tuple[str, str], ...]
    worst: Verdict

    @property
    def answer(self) -> Answer:
        """Return who learns what: the same answer as on the terminal and on the pages."""
        with only_known_modules():
            return answer_of(self.path)

    def to_frame(self, short: bool = False) -> Any:
        """Return a pandas row per finding, with intervals as three columns.

        short  a row per cell of the table of who learns what, with its best attack
        """
        if short:
            return frame(table_rows(self.answer))
        return frame([_flat_row(finding) for finding in self.findings])

    def __repr__(self) -> str:
        try:
            said = short_text(self.answer)
        except (SecurefgError, OSError):  # the folder is gone; what was found is still here
            said = f"{len(self.findings)} findings, the worst {self.worst}"
        return f"AuditResult {self.path.name}\n{said}"

    def _repr_html_(self) -> str:
        return table_html(self.answer)


@dataclass(frozen=True, repr=False)
class CurveResult:
    """A finished sweep: its data, its page, and the points that failed with their reasons."""

    data: CurveData
    page: Path
    failed: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        data = self.data
        lines = [f"CurveResult {data.name}: {len(data.points)} points, {data.seeds} seeds"]
        for choice in data.choices[:MOST_CHOICES]:
            lines.append(f"  {choice.series}: {choice.words}")
        left = len(data.choices) - MOST_CHOICES
        lines += [f"  and {left} more series"] if left > 0 else []
        lines += [f"  {len(self.failed)} points failed"] if self.failed else []
        return "\n".join((*lines, f"  page {self.page}"))

    def to_frame(self, short: bool = False) -> Any:
        """Return a pandas row per point and attack. A point without attacks has one row.

        short  a row per point, with its largest gain
        """
        if short:
            return frame([_short_point(point) for point in self.data.points])
        rows = []
        for point in self.data.points:
            point_columns = {
                "series": point.series,
                "defence": point.defence,
                "epsilon": _epsilon_number(point.epsilon),
                "unit": point.unit,
                "accuracy": None if point.accuracy is None else point.accuracy.value,
                "epsilon_lower": point.epsilon_lower,
                "failed": point.failed,
            }
            attacks = [
                {
                    "attack": leak.attack,
                    "adversary": leak.adversary,
                    "gain": None if leak.gain is None else leak.gain.value,
                    "verdict": leak.verdict,
                }
                for leak in point.leaks
            ]
            rows += [{**point_columns, **attack} for attack in attacks or [{}]]
        return frame(rows)

    def _repr_html_(self) -> str:
        rows = [
            (
                point.series,
                point.defence,
                "∞" if point.epsilon is None else f"{point.epsilon:g}",
                _share(None if point.accuracy is None else point.accuracy.value),
                _largest_text([leak.gain.value for leak in point.leaks if leak.gain]),
                point.failed,
            )
            for point in self.data.points
        ]
        score = score_words(self.data.points)
        columns = ("series", "defence", "epsilon", score, "largest gain", "failed")
        return f"{to_table(columns, rows)}<p>{escape(str(self.page))}</p>"


def _short_point(point: CurvePoint) -> dict[str, Any]:
    gains = [leak.gain.value for leak in point.leaks if leak.gain]
    return {
        "series": point.series,
        "defence": point.defence,
        "epsilon": _epsilon_number(point.epsilon),
        "unit": point.unit,
        point.score: None if point.accuracy is None else point.accuracy.value,
        "largest_gain": max(gains, default=None),
        "failed": point.failed,
    }


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return the rows as a pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise InputError("to_frame: needs `pip install 'securefg[pandas]'`") from error
    return pandas.DataFrame(list(rows))


def to_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table. Every cell is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _flat_row(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in finding.model_dump(mode="json").items():
        if isinstance(value, dict) and {"value", "low", "high"} <= set(value):
            row |= {
                name: value["value"],
                f"{name}_low": value["low"],
                f"{name}_high": value["high"],
            }
        elif not isinstance(value, dict | list):
            row[name] = value
    return row


def _largest_text(gains: list[float]) -> str:
    return f"{max(gains):+.3f}" if gains else ""


def _epsilon_number(epsilon: float | None) -> float:
    return float("inf") if epsilon is None else epsilon


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
