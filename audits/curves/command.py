"""`securefg curve`: run and audit what is missing, gather it, write data, timing and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from audits.curves.collect import collect_curve, is_audited
from audits.curves.forecast import describe_work, warn_of_red
from audits.curves.page import build_curve_page
from audits.curves.plan import CurvePlan, plan_curve
from audits.curves.recommend import awaiting_default_audit
from audits.curves.settings import load_curve
from audits.plan import Plan
from audits.run import audit
from securefg.foundation.errors import ConfigError, InputError, PrivacyError
from securefg.foundation.files import write_json
from securefg.reports.curve_data import CurveData
from securefg.runs.assembly import Setup, prepare
from securefg.runs.observing import Observer
from securefg.settings.config import RunConfig
from securefg.settings.shipped import find_config
from securefg.sweep import Failure, Runs, SweepOutcome, find_run, sweep_points
from securefg.sweep.display import Display


@dataclass(frozen=True)
class CurveOutcome:
    """A record of what a curve wrote, and what failed on the way."""

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
    tell: Callable[[str], None] = lambda line: None,
) -> CurveOutcome:
    """Run the missing points of a curve, write its page even if some points failed, and return the
    outcome.

    tell  gets a line for each thing that is known before the work
    """
    path = find_config(path)
    curve = load_curve(path, overrides)
    if seeds is not None:
        curve = curve.model_copy(update={"seeds": seeds})
    plan = plan_curve(curve, path)
    home = root / curve.name
    setups = refuse_impossible(plan, home / "runs")
    for reason in warn_of_red(plan, setups):
        tell(f"cannot end green: {reason}")
    tell(describe_work(plan, home, jobs, setups))
    outcome = carry_out(plan, home, jobs, display)
    asked = path.name if path.is_absolute() else path.as_posix()  # no machine's folders on a page
    command_text = f"securefg curve {asked}"
    data, timing = collect_curve(plan, home / "runs", outcome.failed, command_text)
    tried: set[str] = set()
    while not outcome.interrupted and (due := _due_points(data, tried)):
        tried |= due
        later = audit_by_default(plan, due, home, jobs, display)
        outcome = replace(later, failed=(*outcome.failed, *later.failed))
        data, timing = collect_curve(plan, home / "runs", outcome.failed, command_text)
    write_json(home / "data.json", data.model_dump(mode="json", by_alias=True))
    write_json(home / "timing.json", timing.model_dump(mode="json"))
    page = build_curve_page(data, timing, home / f"{curve.name}.html")
    return CurveOutcome(data, page, outcome.failed, outcome.interrupted)


def refuse_impossible(plan: CurvePlan, runs: Path) -> dict[str, Setup]:
    """Put together what is missing of every defence, at its least and its largest epsilon.

    Return the setups by the keys of their settings. Raise before the first run if some run is
    impossible.
    """
    setups: dict[str, Setup] = {}
    series = {(setting.series, setting.defence) for setting in plan.settings}
    for one in sorted(series):
        own = [setting for setting in plan.settings if (setting.series, setting.defence) == one]
        for setting in own[:1] + own[1:][-1:]:
            config = setting.runs[0].config
            found = find_run(runs, config.hash)
            if found is None or not found.finished:
                try:
                    setups[setting.key] = prepare(config)
                except (InputError, PrivacyError) as error:
                    raise ConfigError(f"{setting.key}: {error}") from error
    return setups


def _due_points(data: CurveData, tried: set[str]) -> set[str]:
    """Return the points that are recommended unless an attack that nobody asked for leaks."""
    return set(awaiting_default_audit(data.series, data.points, data.limits)) - tried


def audit_by_default(
    plan: CurvePlan, keys: set[str], home: Path, jobs: int, display: Display | None
) -> SweepOutcome:
    """Audit every run of these points with every attack that fits it."""
    points = [point for setting in plan.settings if setting.key in keys for point in setting.runs]
    plans = {p.config.hash: plan.audits[p.config.hash].default_attacks for p in points}
    return sweep_points(points, home / "runs", jobs, RunAndAudit(plans, home / "controls"), display)


def carry_out(plan: CurvePlan, home: Path, jobs: int, display: Display | None) -> SweepOutcome:
    """Run and audit what is missing, so many points at a time."""
    work = RunAndAudit(plan.audits, home / "controls")
    return sweep_points(plan.points, home / "runs", jobs, work, display)


@dataclass(frozen=True)
class RunAndAudit:
    """A task that runs and audits a config. Configs are looked up by their hash. A config without a
    plan (a reference level) is only run.

    controls  where runs with the defences off are kept, one for all strengths of a defence
    """

    plans: Mapping[str, Plan]
    controls: Path

    def finished(self, config: RunConfig) -> bool:
        """Return whether the run has ended and was audited on the curve's own terms."""
        folder = find_run(config.output.root, config.hash)
        if folder is None or not folder.finished:
            return False
        return config.hash not in self.plans or is_audited(folder, self.plans[config.hash])

    def execute(self, config: RunConfig, observer: Observer) -> bool:
        """Run a point and audit it. Return whether both were completed."""
        runs = Runs()
        if not runs.finished(config) and not runs.execute(config, observer):
            return False
        folder = find_run(config.output.root, config.hash)
        plan = self.plans.get(config.hash)
        if plan is not None and folder is not None:
            audit(folder.path, plan, controls=self.controls)
        return True
