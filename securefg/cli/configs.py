"""`securefg list configs`: the shipped configs by group, with required data and rough times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from securefg.foundation.yaml_text import read_yaml
from securefg.settings.config import load_config
from securefg.settings.forecast import SECONDS_PER_AUDIT, forecast_from_config, round_duration
from securefg.settings.shipped import config_names, configs_folder, first_comment

HEADER: Final = ("config", "data", "roughly", "")
NOTE: Final = (
    "data: the dataset to have or to download. roughly: a guess from public sizes, for an idle "
    "core (for a curve with its audits: two)."
)
FIRST: Final = ("quickstart", "starter")
DRAWN: Final = ("csbm",)
"""Datasets that are drawn and need no file."""
CURVE_JOBS: Final = 2


@dataclass(frozen=True)
class ShippedConfig:
    """A shipped config as the list shows it; `seconds` is a guess, or None."""

    name: str
    group: str
    data: tuple[str, ...]
    seconds: float | None
    about: str

    @property
    def line(self) -> tuple[str, ...]:
        """The row of the table."""
        needed = [name for name in self.data if name not in DRAWN]
        lasts = "" if self.seconds is None else round_duration(self.seconds)
        return self.name, ", ".join(needed) or "none", lasts, self.about


def list_configs() -> list[tuple[str, ...]]:
    """Return the rows of the table, each group below a row with its title alone."""
    found = sorted(map(_describe_config, config_names()), key=_sort_key)
    lines: list[tuple[str, ...]] = []
    for group in dict.fromkeys(one.group for one in found):
        lines += [(group, "", "", ""), *(one.line for one in found if one.group == group)]
    return lines


def _sort_key(one: ShippedConfig) -> tuple[int, str, str]:
    order = {"start here": 0, "curves": 1}
    return order.get(one.group, 2), one.group, one.name


def _describe_config(name: str) -> ShippedConfig:
    path = configs_folder() / f"{name}.yaml"
    about, tree = first_comment(path), read_yaml(path)
    if "sweeps" in tree:
        return _describe_curve(path, tree, about)
    config = load_config(path)
    group = "start here" if name in FIRST else f"method {config.method.name}"
    return ShippedConfig(name, group, (config.data.name,), forecast_from_config(config), about)


def _describe_curve(path: Path, tree: dict[str, Any], about: str) -> ShippedConfig:
    runs = [load_config(path.parent / sweep["config"]) for sweep in tree["sweeps"]]
    seeds, seconds = tree.get("seeds", 3), 0.0
    for sweep, run in zip(tree["sweeps"], runs, strict=True):
        strengths = sum(len(defence.get("epsilon", ())) or 1 for defence in sweep["defences"])
        levels = sum(level in sweep for level in ("centralised", "alone"))
        each = forecast_from_config(run) or 0.0
        audits = strengths * SECONDS_PER_AUDIT
        seconds += seeds * (each * (strengths + levels) + audits) / CURVE_JOBS
    data = tuple(dict.fromkeys(run.data.name for run in runs))
    return ShippedConfig(path.stem, "curves", data, seconds, about)
