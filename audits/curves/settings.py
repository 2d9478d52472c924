"""A curve's config: which runs are swept over which defences, by whom they are attacked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from attacks import get_attack
from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import name_kind
from securefg.foundation.yaml_text import read_yaml
from securefg.privacy.defence import find_defence
from securefg.protocol.transcript import Adversary
from securefg.reports.curve_data import Limits
from securefg.settings.config import RunConfig, apply_override, load_config, parse_config
from securefg.settings.privacy import NO_DEFENCE
from securefg.settings.shipped import name_config

WITHOUT_NOISE: Final = ("none", "secagg")
"""Words of a curve for runs without noise: as they are, and with masked sums."""


class Defence(Settings):
    """A defence and the strengths at which it is tried.

    name     `none`, `secagg` (masked sums), or a defence by name or module path
    epsilon  target epsilons (`none` and `secagg` promise none and have no list)
    privacy  the rest of the run's `privacy` part: clip, unit, masking
    set      further settings that go with this defence, as `a.b=c`
    """

    name: str
    epsilon: tuple[float, ...] = ()
    privacy: dict[str, Any] = Field(default_factory=dict)
    set: tuple[str, ...] = ()

    @field_validator("name")
    @classmethod
    def _adds_noise(cls, name: str) -> str:
        if name not in WITHOUT_NOISE and find_defence(name, "defences.name").noise_in != "upload":
            raise ValueError(
                f"found {name!r}; expected none, secagg, or a defence that adds noise to uploads"
            )
        return name

    @property
    def is_noisy(self) -> bool:
        """Return whether the defence promises an epsilon."""
        return self.name not in WITHOUT_NOISE

    @property
    def has_masks(self) -> bool:
        """Return whether the runs of this defence mask their sums."""
        return find_defence(self.name).needs_masks if self.is_noisy else self.name == "secagg"

    @field_validator("epsilon")
    @classmethod
    def _is_positive(cls, found: tuple[float, ...]) -> tuple[float, ...]:
        if any(value <= 0 for value in found):
            raise ValueError(f"found {min(found):g}; expected numbers above 0 (none is infinity)")
        return tuple(sorted(set(found)))


class LevelRun(Settings):
    """A run whose accuracy is drawn as a level."""

    config: Path
    set: tuple[str, ...] = ()


class Sweep(Settings):
    """A method on a dataset.

    config       a run's config, beside this file or below the working directory
    centralised  drawn as a level: all data in one hand, and
    alone        nobody exchanging anything
    attacks      names that are run at every point, or all that apply if not set. Every attack that
                 fits is also run at a point before it is recommended
    exclude      reasons by attack: what the attack could not measure then does not count. It is run
                 all the same, its LEAK counts, and the page prints the reason
    """

    config: Path
    label: str | None = None
    set: tuple[str, ...] = ()
    defences: tuple[Defence, ...] = Field(min_length=1)
    attacks: tuple[str, ...] | None = None
    exclude: dict[str, str] = Field(default_factory=dict)
    centralised: LevelRun | None = None
    alone: LevelRun | None = None

    @field_validator("attacks")
    @classmethod
    def _are_known(cls, found: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in found or ():
            get_attack(name)
        return found

    @model_validator(mode="after")
    def _has_reasons(self) -> Self:
        for name, reason in self.exclude.items():
            get_attack(name)
            if not reason.strip():
                raise ValueError(f"exclude.{name}: found no reason; expected one, in words")
            if name in (self.attacks or ()):
                raise ValueError(f"exclude.{name}: found under `attacks` too; name it in one place")
        return self


class CurveConfig(Settings):
    """A whole curve."""

    name: str = Field("curve", pattern=r"^[\w.-]+$")
    sweeps: tuple[Sweep, ...] = Field(min_length=1)
    adversaries: tuple[str, ...] = ("server",)
    seeds: int = Field(3, ge=1)
    first_seed: int = Field(0, ge=0, description="seed of the first run; the others follow")
    trials: int = Field(20_000, ge=1000, description="of every noise mechanism")
    limits: Limits = Limits()

    @property
    def run_seeds(self) -> range:
        """Return the seeds that every point is run with."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @field_validator("adversaries")
    @classmethod
    def _are_somebody(cls, found: tuple[str, ...]) -> tuple[str, ...]:
        for text in found:
            Adversary.parse(text)
        return found


def load_curve(path: Path, overrides: Sequence[str] = ()) -> CurveConfig:
    """Read a curve's YAML, apply `a.b=c`, and return the config. Overrides of `run.` go to the
    config of every run. Raise ConfigError naming each mistake with what is allowed."""
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: found {name_kind(tree)}; expected keys such as sweeps, seeds")
    if "method" in tree and "sweeps" not in tree:
        raise ConfigError(
            f"{name_config(path)}: found a run's config (`method`); expected a curve's (`sweeps`); "
            f"run it with: securefg run {name_config(path)}"
        )
    runs = [text.removeprefix("run.") for text in overrides if text.startswith("run.")]
    for text in overrides:
        if not text.startswith("run."):
            apply_override(tree, text)
    for sweep in tree.get("sweeps") or []:
        if isinstance(sweep, dict) and runs:
            sweep["set"] = [*(sweep.get("set") or []), *runs]
    try:
        return CurveConfig.model_validate({"name": path.stem, **tree})
    except ValidationError as error:
        raise ConfigError(explain_errors(error, CurveConfig, prefix=f"{path}: ")) from error


def run_config(path: Path, beside: Path, overrides: tuple[str, ...]) -> RunConfig:
    """Return a run's config by its name, from beside the curve's file or from the working
    directory."""
    near = beside.parent / path
    return load_config(near if near.is_file() else path, overrides)


def defended_config(
    base: RunConfig, defence: Defence, epsilon: float | None, seed: int
) -> RunConfig:
    """Return the run under a defence. Its noise is the system's, because an audit would take seeded
    noise off, and seeded noise defends nothing."""
    privacy: dict[str, Any] = dict(defence.privacy)
    if defence.is_noisy:
        privacy = {"mechanism": defence.name, **privacy}
        privacy["target_epsilon"] = epsilon
    if defence.has_masks:
        privacy.setdefault("secure_aggregation", {})
    tree = base.model_dump(mode="json")
    tree["privacy"] = privacy
    config = parse_config(tree, [*defence.set, f"seed={seed}"])
    _require_the_defence(config, defence)
    return config


def _require_the_defence(config: RunConfig, defence: Defence) -> None:
    """Raise ConfigError if a point does not have the defence that it is called by."""
    wanted = (defence.name if defence.is_noisy else NO_DEFENCE, defence.has_masks)
    actual_defence = (config.privacy.mechanism, config.privacy.secure_aggregation is not None)
    if actual_defence != wanted:
        masks = "masks" if actual_defence[1] else "no masks"
        raise ConfigError(
            f"defences: {defence.name!r} has the mechanism {actual_defence[0]} and {masks} by its "
            "`privacy` or `set`"
        )
