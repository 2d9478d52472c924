"""How a run is carried out: how clients train, where hosts run, what is written and audited."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from securefg.foundation.settings import Settings
from securefg.settings.privacy import PrivateTrainingSettings


class TrainingSettings(Settings):
    """How long and how the clients train."""

    renamed: ClassVar[Mapping[str, str]] = {"keep": "final_model"}

    rounds: int = Field(300, ge=1, description="maximum number of rounds")
    local_epochs: int = Field(10, ge=1, description="local epochs per round")
    lr: float = Field(0.01, gt=0)
    weight_decay: float = Field(5e-4, ge=0)
    participation: float = Field(
        1.0, gt=0, le=1, description="fraction of the clients sampled per round"
    )
    patience: int | None = Field(
        30,
        ge=1,
        description="number of rounds without a better validation score after which training stops",
    )
    monitor: Literal[
        "val_accuracy",
        "val_loss",
        "either",
        "val_balanced_accuracy",
        "val_macro_f1",
        "val_roc_auc",
        "val_average_precision",
    ] = Field(
        "either",
        description="validation score that early stopping and the kept model go by; either: the "
        "accuracy or the loss (the kept model is then the most accurate one)",
    )
    final_model: Literal["best", "last"] = Field(
        "best",
        description="the released model: the best round's by validation, which no epsilon covers, "
        "or the last round's; with patience: null, no validation label is used then",
    )
    dp_sgd: PrivateTrainingSettings | None = Field(
        None, description="DP-SGD in local training, for networks that read no neighbours"
    )

    @property
    def noise_in_training(self) -> tuple[str, PrivateTrainingSettings] | None:
        """The name of the private training that is asked for, and its settings."""
        return None if self.dp_sgd is None else ("dp_sgd", self.dp_sgd)

    def without_noise(self) -> TrainingSettings:
        """Return the same training without noise."""
        return self.model_copy(update={"dp_sgd": None})


class EngineSettings(Settings):
    """Where the hosts run."""

    name: Literal["inprocess", "processes", "flare"] = "inprocess"
    hosts: int = Field(
        2, ge=1, description="number of hosts that share the clients of batched methods"
    )
    threads: int = Field(
        1, ge=1, description="threads per process; changes the last bits of a result"
    )
    timeout: float = Field(
        600.0, gt=0, description="seconds after which a silent host counts as dropped out"
    )
    sites: int = Field(4, ge=1, description="flare: number of sites that share the hosts")
    patience: float = Field(
        10.0,
        gt=0,
        description="flare: seconds without a heartbeat after which a site counts as lost",
    )
    start_within: float = Field(
        120.0, gt=0, description="flare: seconds within which every site must have started the job"
    )


class OutputSettings(Settings):
    """What is written, and where."""

    root: Path = Field(Path("runs"), description="folder for run folders")
    checkpoint_every: int = Field(10, ge=1, description="rounds between checkpoints")
    transcript_every: int = Field(
        10,
        ge=0,
        description="keep message bodies of every n-th round (1: all, 0: none), headers always",
    )
    transcript_limit: float = Field(
        2.0,
        gt=0,
        description="GiB that message bodies may take; beyond it fewer rounds keep theirs, which a "
        "warning tells",
    )


JUDGING = (
    "leak_threshold",
    "sensitive",
    "attack_seconds",
    "shadows",
    "num_shadows",
    "shadow_seconds",
)
"""Settings of an audit that judge a run and change none."""


class AuditSettings(Settings):
    """What a run carries for its audit. Runs of other seeds with the same `seed` here have the same
    canaries, each with a coin of its own."""

    renamed: ClassVar[Mapping[str, str]] = {"smallest_gain": "leak_threshold"}

    canaries: int = Field(
        0, ge=0, description="number of canary nodes inserted before the data is partitioned"
    )
    seed: int = Field(0, ge=0, description="seed for drawing the canaries")
    sensitive: int | None = Field(
        None,
        ge=0,
        description="column of the features whose inference is measured, counted from 0",
    )
    shadows: Literal["model", "method"] = Field(
        "model",
        description="what membership attacks compare the model with: GCNs of its shape, or small "
        "federations of the run's own config",
    )
    num_shadows: int = Field(64, ge=4, description="number of shadows")
    shadow_seconds: float = Field(
        600, gt=0, description="longest that shadows of the method may take, as estimated"
    )
    leak_threshold: float | None = Field(
        None,
        gt=0,
        le=1,
        description="smallest gain of an attack that matters; a smaller one is a trace, or may go "
        "undetected; null: 0.05 for an AUC or a share, 0.02 for a cosine",
    )
    attack_seconds: float | None = Field(
        3600.0,
        gt=0,
        description="seconds after which an attack with its controls, or a check, is ended and "
        "counts as inconclusive; null: never",
    )
