"""Checkpoints: a run's state after a whole round, from which it goes on bit for bit.

    checkpoints/round-000040/   server.safetensors  best.bin  state.json
                                hosts/<host>.safetensors (written by the host itself)

A checkpoint is written under another name, flushed, then renamed: it is whole or it is not there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors.torch

from securefg.federation.roles import State
from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_atomically, write_json

KEPT = 2


@dataclass(frozen=True)
class Progress:
    """Where a run stands, beside the states of the parties."""

    config_hash: str
    round: int
    seq: int
    up: tuple[int, int]
    down: tuple[int, int]
    dropped: int
    transcript_position: int
    best_round: int
    best_score: float
    best_kind: str
    best_loss: float
    improved: int
    seconds: float


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as it lies on disk."""

    path: Path
    progress: Progress

    def server_state(self) -> State:
        return safetensors.torch.load((self.path / "server.safetensors").read_bytes())

    def best_body(self) -> bytes:
        return (self.path / "best.bin").read_bytes()

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"


def write_checkpoint(
    folder: Path,
    progress: Progress,
    server: State,
    best_body: bytes,
    save_hosts: Callable[[Path], None],
) -> None:
    """Write the state after a round, and forget all but the last ones."""
    target = folder / f"round-{progress.round:06d}"
    temporary = folder / f".{target.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    (temporary / "hosts").mkdir(parents=True)
    write_atomically(temporary / "server.safetensors", safetensors.torch.save(server))
    write_atomically(temporary / "best.bin", best_body)
    save_hosts(temporary / "hosts")
    write_json(temporary / "state.json", asdict(progress))
    if target.exists():
        shutil.rmtree(target)
    os.replace(temporary, target)
    for old in _whole(folder)[:-KEPT]:
        shutil.rmtree(old)


def last_checkpoint(folder: Path, config_hash: str) -> Checkpoint | None:
    """The newest whole checkpoint; refuses one that another config made."""
    found = _whole(folder)
    if not found:
        return None
    path = found[-1]
    try:
        data = json.loads((path / "state.json").read_text())
        data["up"], data["down"] = tuple(data["up"]), tuple(data["down"])
        progress = Progress(**data)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunFolderError(f"{path}: a checkpoint that cannot be read: {error}") from error
    if progress.config_hash != config_hash:
        raise RunFolderError(
            f"{path}: a checkpoint of another config: its hash is {progress.config_hash}, "
            f"this config's {config_hash}"
        )
    return Checkpoint(path, progress)


def _whole(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*"))
