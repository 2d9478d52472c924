"""Where hosts run, and what a run writes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from securefg.foundation.settings import Settings


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
