"""How a run is carried out: how clients train, where hosts run, what is written and audited."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from securefg.foundation.settings import Settings
from securefg.settings.privacy import DpSgdSettings


class TrainingSettings(Settings):
    """How long and how the clients train."""

    rounds: int = Field(300, ge=1, description="at most so many rounds")
    local_epochs: int = Field(10, ge=1, description="epochs per client and round")
    lr: float = Field(0.01, gt=0)
    weight_decay: float = Field(5e-4, ge=0)
    participation: float = Field(
        1.0, gt=0, le=1, description="share of the clients asked per round"
    )
    patience: int | None = Field(
        30, ge=1, description="stop after so many rounds without a better validation score"
    )
    monitor: Literal["val_accuracy", "val_loss", "either"] = Field(
        "either",
        description="what counts as better: the accuracy, the loss, or one of the two (the kept "
        "model is then the most accurate one)",
    )
    dp_sgd: DpSgdSettings | None = Field(
        None, description="noise in local training, for methods whose samples meet in no gradient"
    )


class EngineSettings(Settings):
    """Where the hosts run."""

    name: Literal["inprocess", "processes", "flare"] = "inprocess"
    hosts: int = Field(2, ge=1, description="hosts over which one-node-per-user clients are spread")
    threads: int = Field(1, ge=1, description="threads per process; part of the result's last bits")
    timeout: float = Field(600.0, gt=0, description="seconds until a silent host counts as dropped")
    sites: int = Field(4, ge=1, description="flare: sites over which the hosts are spread")
    patience: float = Field(
        10.0, gt=0, description="flare: seconds without a sign of life until a site is given up"
    )
    start_within: float = Field(
        120.0, gt=0, description="flare: seconds until every site must have taken up the job"
    )


class OutputSettings(Settings):
    """What is written, and where."""

    root: Path = Field(Path("runs"), description="where run folders go")
    checkpoint_every: int = Field(10, ge=1, description="rounds between checkpoints")
    transcript_every: int = Field(
        10, ge=0, description="rounds between message bodies kept (1: all, 0: none); headers always"
    )


class AuditSettings(Settings):
    """What a run carries for its audit. Runs of other seeds with the same `seed` here have the same
    canaries, each with a coin of its own."""

    canaries: int = Field(0, ge=0, description="nodes inserted before the data is dealt out")
    seed: int = Field(0, ge=0, description="draws what the canaries look like")
    smallest_gain: float = Field(
        0.05,
        gt=0,
        le=1,
        description="the smallest gain of an attack that matters; smaller ones may hide",
    )
