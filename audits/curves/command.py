"""`securefg curve`: run and audit what is missing, gather it, write data, timing and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audits.curves.collect import collect
from audits.curves.plan import CurvePlan, plan_curve
from audits.curves.settings import load_curve
from audits.curves.work import RunAndAudit
from securefg.foundation.errors import ConfigError, InputError, PrivacyError
from securefg.foundation.files import write_json
from securefg.reports.curve.data import CurveData
from securefg.reports.curve.page import build_curve_page
from securefg.run.assembly import prepare
from securefg.settings.shipped import find_config
from securefg.sweep import Failure, SweepOutcome, find_run, sweep
from securefg.sweep.display import Display


@dataclass(frozen=True)
class CurveOutcome:
    data: CurveData
    page: Path
    failed: tuple[Failure, ...]
    interrupted: bool


def draw_curve(
    path: Path,
    root: Path,
    jobs: int,
    seeds: int | None = None,
    display: Display | None = None,
    overrides: Sequence[str] = (),
) -> CurveOutcome:
    """Only missing points are run; the page is written even where some failed."""
    path = find_config(path)
    curve = load_curve(path, overrides)
    if seeds is not None:
        curve = curve.model_copy(update={"seeds": seeds})
    plan = plan_curve(curve, path)
    home = root / curve.name
    refuse_impossible(plan, home / "runs")
    outcome = carry_out(plan, home, jobs, display)
    asked = path.name if path.is_absolute() else path.as_posix()  # no machine's folders on a page
    data, timing = collect(plan, home / "runs", outcome.failed, f"securefg curve {asked}")
    write_json(home / "data.json", data.model_dump(mode="json", by_alias=True))
    write_json(home / "timing.json", timing.model_dump(mode="json"))
    page = build_curve_page(data, timing, home / f"{curve.name}.html")
    return CurveOutcome(data, page, outcome.failed, outcome.interrupted)


def refuse_impossible(plan: CurvePlan, runs: Path) -> None:
    """Put together what is missing of every defence, at its least and its largest epsilon: what
    no run could do is told before the first one."""
    series = {(setting.series, setting.defence) for setting in plan.settings}
    for one in sorted(series):
        own = [setting for setting in plan.settings if (setting.series, setting.defence) == one]
        for setting in own[:1] + own[1:][-1:]:
            config = setting.runs[0].config
            found = find_run(runs, config.hash)
            if found is None or not found.finished:
                try:
                    prepare(config)
                except (InputError, PrivacyError) as error:
                    raise ConfigError(f"{setting.key}: {error}") from error


def carry_out(plan: CurvePlan, home: Path, jobs: int, display: Display | None) -> SweepOutcome:
    work = RunAndAudit(plan.audits, home / "controls")
    return sweep(plan.points, home / "runs", jobs, work, display)
