"""The `privacy` part of a config: which protection every private field gets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field, PositiveFloat, field_validator, model_validator

from securefg.foundation.extensions import find_module, installed
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import list_names
from securefg.settings.secagg import SecureAggregationSettings

Per = Literal["row", "message"]
Adjacency = Literal["replace_one", "zero_out"]
Unit = Literal["client", "row", "node", "edge", "features"]
"""Whom an epsilon is for: a client's all, one row of its uploads, or one node with its features,
label and links, or one edge, wherever they are held. `features` is a node's feature vector where
the server is given other data of the node, such as its links: these are taken as known."""

GRAPH_UNITS: Final = ("node", "edge", "features")
"""The units of which one may be with several clients."""

DEFENCES: Final = "securefg.defences"
"""The entry points of installed packages that offer a defence; each names a module."""

NO_DEFENCE: Final = "plain"
"""The defence of a field for which no setting asks for one."""

GATE_DEFENCE: Final = "local_gaussian"
"""The defence of updates that pass a site's gate (`SecurefgFilter`)."""

SAMPLE_DEFENCE: Final = "dp_sgd"
"""The defence of single samples in another framework's training (`train_privately`)."""


@cache
def shipped_defences() -> dict[str, str]:
    """Return module by name: every file of the folder is a defence."""
    folder = Path(__file__).parents[1] / "privacy" / "defences"
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    return {name: f"securefg.privacy.defences.{name}" for name in names}


def defence_names() -> list[str]:
    """Return all names that a config may use without a module path."""
    return sorted({*shipped_defences(), *installed(DEFENCES)})


def require_known_defence(key: str, name: str) -> str:
    """Return the name, or raise `ConfigError` with those that are allowed."""
    if name not in shipped_defences():
        find_module(key, name, shipped_defences(), DEFENCES)
    return name


class PrivateTrainingSettings(Settings):
    """Clipped and noised steps in place of the clients' local SGD; epsilon is per sample."""

    noise_multiplier: PositiveFloat = Field(
        description="noise standard deviation over clip_l2, on the sum of a step's gradients"
    )
    clip_l2: PositiveFloat = Field(1.0, description="L2 bound of one sample's gradient")
    sampling: float = Field(gt=0, le=1, description="sampling probability of each sample in a step")
    num_samples: int = Field(
        ge=1, description="training samples of every client; the number is public"
    )


class FieldSettings(Settings):
    """What one field gets instead of the general rule."""

    renamed: ClassVar[Mapping[str, str]] = {"per": "clip_per"}

    mechanism: str = Field(description="the field's defence")
    clip_l2: PositiveFloat | None = Field(
        None, description="the field's L2 bound; null: that of `privacy`"
    )
    clip_per: Per | None = Field(None, description="what is clipped; null: as `privacy` has it")
    noise_multiplier: PositiveFloat | None = Field(
        None, description="the field's noise over its sensitivity; null: that of `privacy`"
    )

    @field_validator("mechanism")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return require_known_defence("privacy.field_rules.*.mechanism", name)


class PrivacySettings(Settings):
    """Noise on what the clients upload, and what it is accounted as."""

    renamed: ClassVar[Mapping[str, str]] = {"per": "clip_per", "fields": "field_rules"}

    mechanism: str = Field(
        NO_DEFENCE, description="defence of every private field: a name, or a module path"
    )
    clip_l2: PositiveFloat = Field(1.0, description="L2 bound per unit, before the noise")
    clip_per: Per | None = Field(
        None, description="unit of clipping; by default the row where a field has rows"
    )
    noise_multiplier: PositiveFloat | None = Field(
        None, description="noise standard deviation over the sensitivity of the unit"
    )
    target_epsilon: PositiveFloat | None = Field(
        None, description="epsilon of the whole run; the noise multiplier is computed from it"
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="delta of every claim")
    unit: Unit = Field("client", description="unit of protection of target_epsilon and budget")
    adjacency: Adjacency = Field(
        "replace_one", description="replace_one: sensitivity 2 clip_l2; zero_out: clip_l2"
    )
    budget: PositiveFloat | None = Field(
        None, description="the run ends before the release that would pass this epsilon"
    )
    noise_rng: Literal["system", "seeded"] = Field(
        "system", description="seeded noise is reproducible and protects nothing"
    )
    field_rules: dict[str, FieldSettings] = Field(
        default_factory=dict, description="exceptions, by Message.field"
    )
    secure_aggregation: SecureAggregationSettings | None = Field(
        None, description="masking of sums; {} takes all defaults"
    )

    @field_validator("mechanism")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return require_known_defence("privacy.mechanism", name)

    @model_validator(mode="after")
    def _noise_is_given_once(self) -> PrivacySettings:
        if self.mechanism == NO_DEFENCE and self.target_epsilon is not None:
            noisy = list_names(name for name in defence_names() if name != NO_DEFENCE)
            raise ValueError(
                f"mechanism: found {NO_DEFENCE} beside target_epsilon; expected a mechanism with "
                f"noise: {noisy}, or a module path"
            )
        given = [self.noise_multiplier, self.target_epsilon]
        if self.mechanism != NO_DEFENCE and given.count(None) == 0:
            raise ValueError(
                "noise_multiplier: found beside target_epsilon; expected either noise_multiplier "
                "or target_epsilon"
            )
        return self
