"""The `privacy` part of a config: which protection every private field gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, model_validator

from securefg.foundation.settings import Settings
from securefg.settings.secagg import SecureAggregationSettings

Per = Literal["row", "message"]
Adjacency = Literal["replace_one", "zero_out"]
Unit = Literal["client", "row", "node", "edge"]
"""Whom an epsilon is for: a client's all, one row of its uploads, or one node with its features,
label and links, or one edge, wherever they are held."""
Mechanism = Literal["plain", "local_gaussian", "distributed_discrete"]


class DpSgdSettings(Settings):
    """DP-SGD in place of the clients' local SGD; epsilon is per sample, see `privacy.dp_sgd`."""

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

    mechanism: Mechanism
    clip_l2: PositiveFloat | None = None
    per: Per | None = None
    noise_multiplier: PositiveFloat | None = None


class PrivacySettings(Settings):
    """Noise on what the clients upload, and what it is accounted as."""

    mechanism: Mechanism = Field("plain", description="rule for every private field")
    clip_l2: PositiveFloat = Field(1.0, description="L2 bound per unit, before the noise")
    per: Per | None = Field(
        None, description="unit of clipping; by default the row where a field has rows"
    )
    noise_multiplier: PositiveFloat | None = Field(
        None, description="noise standard deviation over the sensitivity of the unit"
    )
    target_epsilon: PositiveFloat | None = Field(
        None, description="epsilon of the whole run; the noise multiplier is computed from it"
    )
    delta: float = Field(1e-5, gt=0, lt=1)
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
    fields: dict[str, FieldSettings] = Field(
        default_factory=dict, description="exceptions, by Message.field"
    )
    secure_aggregation: SecureAggregationSettings | None = Field(
        None, description="masking of sums; {} takes all defaults"
    )

    @model_validator(mode="after")
    def _noise_is_given_once(self) -> PrivacySettings:
        given = [self.noise_multiplier, self.target_epsilon]
        if self.mechanism != "plain" and given.count(None) != 1:
            raise ValueError(f"{self.mechanism} needs either noise_multiplier or target_epsilon")
        if self.mechanism == "plain" and self.target_epsilon is not None:
            raise ValueError(
                "target_epsilon needs a noise mechanism: local_gaussian or distributed_discrete"
            )
        return self
