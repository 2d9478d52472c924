"""From a curve's config to the points to run: defences by strengths by seeds, and the levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attacks import get_attack
from audits.curves.settings import CurveConfig, Defence, Sweep, defended_config, run_config
from audits.plan import PROMISES, Plan
from audits.settings import as_overrides
from securefg.foundation.errors import ConfigError
from securefg.settings.config import RunConfig
from securefg.sweep import Point


@dataclass(frozen=True)
class Setting:
    """A point of the curve: a defence at one strength, run once per seed."""

    series: str
    defence: str
    epsilon: float | None
    unit: str
    runs: tuple[Point, ...]

    @property
    def key(self) -> str:
        """Return the name of the setting: series, defence and epsilon."""
        strength = "" if self.epsilon is None else f" ε={self.epsilon:g}"
        return f"{self.series} · {self.defence}{strength}"


@dataclass(frozen=True)
class Level:
    """A reference line of a series: `centralised` or `alone`."""

    series: str
    kind: str
    runs: tuple[Point, ...]


@dataclass(frozen=True)
class Asked:
    """A list of what a curve wants to know of a setting.

    smallest  the smallest gain that matters, or None for the default of each metric
    excluded  attacks whose failure to measure does not count (their LEAK does)
    """

    attacks: tuple[str, ...]
    adversaries: tuple[str, ...]
    smallest: float | None = None
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CurvePlan:
    """A plan of all that must be run, and of how each run is audited (by config hash).

    excluded  by series: attacks that the config excludes, each with its reason
    """

    curve: CurveConfig
    settings: tuple[Setting, ...]
    levels: tuple[Level, ...]
    audits: dict[str, Plan]
    excluded: dict[str, dict[str, str]] = field(default_factory=dict)

    def asked(self, setting: Setting) -> Asked:
        """Return the attacks that were named for a setting's runs, and whose places they take."""
        plan = self.audits[setting.runs[0].config.hash]
        names = tuple(get_attack(name).name for name in plan.only if name != PROMISES)
        smallest = setting.runs[0].config.audit.leak_threshold
        excluded = frozenset(self.excluded.get(setting.series, {}))
        return Asked(names, self.curve.adversaries, smallest, excluded)

    @property
    def points(self) -> list[Point]:
        """Return all runs: those of the settings, then those of the levels."""
        settings = [point for setting in self.settings for point in setting.runs]
        return settings + [point for level in self.levels for point in level.runs]


def plan_curve(curve: CurveConfig, path: Path) -> CurvePlan:
    """Return the plan of a curve. Every config is parsed here, so that a mistake shows before
    anything runs."""
    settings: list[Setting] = []
    levels: list[Level] = []
    audits: dict[str, Plan] = {}
    excluded: dict[str, dict[str, str]] = {}
    for sweep in curve.sweeps:
        base = run_config(sweep.config, path, sweep.set)
        series = sweep.label or f"{base.method.name} on {base.data.name}"
        if any(series == other.series for other in settings):
            raise ConfigError(f"{path}: two sweeps are called {series!r}; give each a label")
        sweep_settings = [
            _make_setting(curve, base, series, defence, epsilon)
            for defence in sweep.defences
            for epsilon in _epsilon_strengths(path, defence)
        ]
        keys = [setting.key for setting in sweep_settings]
        for key in {key for key in keys if keys.count(key) > 1}:
            raise ConfigError(f"{path}: two settings are called {key!r}; sweep each with a label")
        for point in (point for setting in sweep_settings for point in setting.runs):
            plan = _audit_plan(curve, sweep, point.config)
            if audits.setdefault(point.config.hash, plan) != plan:
                raise ConfigError(
                    f"{path}: {point.key} is run by two sweeps that ask for other attacks, or "
                    "judge by other audit settings; ask both for the same"
                )
        settings += sweep_settings
        excluded[series] = {get_attack(name).name: why for name, why in sweep.exclude.items()}
        levels += [
            _make_level(curve, series, kind, run_config(level.config, path, level.set))
            for kind, level in (("centralised", sweep.centralised), ("alone", sweep.alone))
            if level is not None
        ]
    return CurvePlan(curve, tuple(settings), tuple(levels), audits, excluded)


def _epsilon_strengths(path: Path, defence: Defence) -> tuple[float | None, ...]:
    noisy = defence.is_noisy
    if noisy and not defence.epsilon:
        raise ConfigError(
            f"{path}: {defence.name} has no epsilon; wanted a list of target epsilons"
        )
    if defence.epsilon and not noisy:
        raise ConfigError(f"{path}: {defence.name} promises no epsilon; leave the list out")
    return defence.epsilon or (None,)


def _make_setting(
    curve: CurveConfig, base: RunConfig, series: str, defence: Defence, epsilon: float | None
) -> Setting:
    named = Setting(series, defence.name, epsilon, "", ())
    configs = [defended_config(base, defence, epsilon, seed) for seed in curve.run_seeds]
    runs = tuple(Point(f"{named.key} seed {c.seed}", c) for c in configs)
    unit = configs[0].privacy.unit if epsilon is not None else ""
    return Setting(series, defence.name, epsilon, unit, runs)


def _make_level(curve: CurveConfig, series: str, kind: str, base: RunConfig) -> Level:
    configs = [base.model_copy(update={"seed": seed}) for seed in curve.run_seeds]
    return Level(series, kind, tuple(Point(f"{series} · {kind} seed {c.seed}", c) for c in configs))


def _audit_plan(curve: CurveConfig, sweep: Sweep, config: RunConfig) -> Plan:
    """Return a plan with the attacks that were named, or with all whose needs are met.

    An attack that was named and cannot be run is a finding, and its point meets no limit.
    """
    only = () if sweep.attacks is None else (*sweep.attacks, "promises")
    return Plan(
        only=only,
        adversaries=curve.adversaries,
        trials=curve.trials,
        overrides=as_overrides(config.audit),
    )
