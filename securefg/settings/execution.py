"""How a run is carried out: how clients train, where hosts run, what is written and audited."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator

from securefg.foundation.settings import Settings
from securefg.settings.privacy import PrivateTrainingSettings


class TrainingSettings(Settings):
    """How long and how the clients train."""

    renamed: ClassVar[Mapping[str, str]] = {"keep": "final_model"}

    rounds: int = Field(300, ge=1, description="maximum number of rounds")
    local_epochs: int = Field(10, ge=1, description="local epochs per round")
    lr: float = Field(0.01, gt=0, description="learning rate")
    weight_decay: float = Field(5e-4, ge=0, description="L2 regularisation")
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
        "accuracy or the loss (the kept model is then the most accurate one), or the average "
        "precision where one class has more than 80 % of the training labels",
    )
    loss: Literal["plain", "balanced"] | None = Field(
        None,
        description="balanced: every class has the same weight in the loss; by default where one "
        "class has more than 80 % of the training labels and the method can do it",
    )
    class_shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] | None = Field(
        None,
        description="public shares of the classes, by which monitor and loss are chosen and "
        "classes weighed; by default training labels are counted, which no epsilon covers",
    )
    alerts: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="number of alerts that a client can look into: precision and recall are told "
        "for so many",
    )
    final_model: Literal["best", "last"] = Field(
        "best",
        description="the released model: the best round's by validation, which no epsilon covers, "
        "or the last round's; with patience: null, no validation label is used then",
    )
    dp_sgd: PrivateTrainingSettings | None = Field(
        None, description="DP-SGD in local training, for networks that read no neighbours"
    )

    _chosen: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("class_shares")
    @classmethod
    def _add_up(cls, value: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if value is not None and abs(sum(value) - 1) > 0.01:
            raise ValueError(f"found shares that add up to {sum(value):g}; expected 1")
        return value

    def with_choices(self, choices: Mapping[str, str], why: str) -> TrainingSettings:
        """Return the same settings with what a rule chose, and the reason beside it."""
        made = self.model_copy(update=dict(choices))
        made._chosen = {f"training.{key}": f"{value}: {why}" for key, value in choices.items()}
        return made

    @property
    def as_given(self) -> TrainingSettings:
        """The settings as the config has them: a rule chooses only what is left at its default."""
        keys = [key.removeprefix("training.") for key in self._chosen]
        return self.model_copy(update={key: type(self).model_fields[key].default for key in keys})

    @property
    def chosen(self) -> dict[str, str]:
        """Return what a rule chose, with its reason, by the setting's name."""
        return self._chosen

    @property
    def noise_in_training(self) -> tuple[str, PrivateTrainingSettings] | None:
        """Return the name of the private training that is asked for, and its settings."""
        return None if self.dp_sgd is None else ("dp_sgd", self.dp_sgd)

    def without_noise(self) -> TrainingSettings:
        """Return the same training without noise."""
        return self.model_copy(update={"dp_sgd": None})


class EngineSettings(Settings):
    """Where the hosts run."""

    name: Literal["inprocess", "processes", "flare"] = Field(
        "inprocess", description="one process, a process per host, or NVIDIA FLARE"
    )
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
