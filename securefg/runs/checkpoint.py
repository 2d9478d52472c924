"""Checkpoints: a run's state after a whole round, from which it goes on bit for bit.

    checkpoints/round-000040/   server.safetensors  best.bin  state.json
                                hosts/<host>.safetensors (written by the host itself)

A checkpoint is written under another name, flushed, then renamed: it is whole or it is not there.
`state.json` has the digest of every file and of itself, so that damage shows. Then the checkpoint
before is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
from pydantic import ConfigDict, TypeAdapter
from safetensors import SafetensorError

from securefg.federation.census import CENSUS, Censuses
from securefg.federation.roles import Server, State
from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import (
    PRIVATE,
    make_private_folder,
    sync_path,
    write_atomically,
    write_json,
)
from securefg.foundation.json_text import read_json

KEPT = 2
STATE = "state.json"


@dataclass(frozen=True)
class Progress:
    """A record of where a run stands, beside the states of the parties.

    best_score, best_loss  None where no round was finished
    ledger_lines, _link    how far the ledger went, and the hash over all of it
    transcript_link        the same of the transcript, at `transcript_position`
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    config_hash: str
    round: int
    seq: int
    up: tuple[int, int]
    down: tuple[int, int]
    dropped: int
    ledger_lines: int
    ledger_link: str
    transcript_position: int
    transcript_link: str
    best_round: int
    best_score: float | None
    best_kind: str
    best_loss: float | None
    improved: int
    seconds: float


_PROGRESS = TypeAdapter(Progress)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as it lies on disk."""

    path: Path
    progress: Progress

    def restore(self, server: Server, censuses: Censuses) -> None:
        """Give both parties their states back. A state of another shape has a digest made anew."""
        path = self.path / "server.safetensors"
        try:
            state = safetensors.torch.load(path.read_bytes())
            kept = {name: value for name, value in state.items() if name.startswith(CENSUS)}
            censuses.restore(kept)
            server.restore({name: value for name, value in state.items() if name not in kept})
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RunFolderError(f"{path}: not this server's state: {error!r}") from error

    def best_body(self) -> bytes:
        """Return the encoded release of the best round so far."""
        return (self.path / "best.bin").read_bytes()

    @property
    def hosts(self) -> Path:
        """Return the folder with the states of the hosts."""
        return self.path / "hosts"


def write_checkpoint(
    folder: Path,
    progress: Progress,
    server: State,
    best_body: bytes,
    save_hosts: Callable[[Path], None],
) -> None:
    """Write the state after a round, and forget all but the last ones."""
    target = folder / _checkpoint_name(progress.round)
    temporary = folder / f".{target.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for part in (folder, temporary, temporary / "hosts"):
            make_private_folder(part)
        state = safetensors.torch.save(server)
        write_atomically(temporary / "server.safetensors", state, mode=PRIVATE)
        write_atomically(temporary / "best.bin", best_body, mode=PRIVATE)
        save_hosts(temporary / "hosts")
        files = {name: _file_digest(temporary / name) for name in _list_files(temporary)}
        sealed = _seal_state({"progress": asdict(progress), "files": files})
        write_json(temporary / STATE, sealed, mode=PRIVATE)
        sync_path(temporary / "hosts")
        sync_path(temporary)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_path(folder)
    for old in _checkpoint_folders(folder)[:-KEPT]:
        shutil.rmtree(old)


def last_checkpoint(folder: Path, config_hash: str) -> Checkpoint | None:
    """Return the newest checkpoint that is whole. A damaged checkpoint is moved aside with a
    warning.

    Raise RunFolderError if there are checkpoints and none is whole, or if another config made one.
    """
    damaged: dict[Path, str] = {}
    for path in reversed(_checkpoint_folders(folder)):
        progress = read_progress(path)
        reason = "its state.json is not the one that was written"
        if progress is not None:
            if progress.config_hash != config_hash:
                raise RunFolderError(
                    f"{path}: a checkpoint of another config: its hash is {progress.config_hash}, "
                    f"this config's {config_hash}"
                )
            reason = _find_damage(path)
        if progress is not None and not reason:
            _warn_of_damage(damaged, path)
            return Checkpoint(path, progress)
        damaged[path] = reason
    if damaged:
        said = "; ".join(f"{path.name}: {reason}" for path, reason in damaged.items())
        raise RunFolderError(f"{folder}: no checkpoint is whole ({said}); --fresh starts anew")
    return None


def proven_progress(folder: Path) -> list[Progress]:
    """Return what all checkpoints say of the run, of those too whose other files are damaged."""
    found = [read_progress(path) for path in _checkpoint_folders(folder)]
    return [progress for progress in found if progress is not None]


def oldest_kept(folder: Path) -> int:
    """Return the round of the oldest checkpoint, from which a run goes on if later ones are
    damaged."""
    return int(_checkpoint_folders(folder)[0].name.rpartition("-")[2])


def forget_after(folder: Path, round: int) -> None:
    """Remove checkpoints of later rounds: the run goes on from this one."""
    for path in _checkpoint_folders(folder):
        if path.name > _checkpoint_name(round):
            shutil.rmtree(path)


def read_progress(path: Path) -> Progress | None:
    """Return the progress, or None if the state is not the one that was written."""
    try:
        state = read_json(path / STATE)
        digest = state.pop("digest")
        if digest != _seal_state(state)["digest"]:
            return None
        found = _PROGRESS.validate_json(json.dumps(state["progress"]))
        fits = path.name == _checkpoint_name(found.round) and isinstance(state["files"], dict)
        return found if fits else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _find_damage(path: Path) -> str:
    """Return which file of a checkpoint is not the one that was written, or nothing if all are."""
    files = read_json(path / STATE)["files"]
    if sorted(files) != _list_files(path):
        return "files were added or taken away"
    changed = [name for name in files if _file_digest(path / name) != files[name]]
    return f"{changed[0]} is not the one that was written" if changed else ""


def _warn_of_damage(damaged: dict[Path, str], used: Path) -> None:
    for path, reason in damaged.items():
        warnings.warn(
            f"the checkpoint {path} is damaged: {reason}; the run goes on from {used.name}",
            stacklevel=3,
        )


def _seal_state(state: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(state, sort_keys=True, allow_nan=False)
    return {**state, "digest": _bytes_digest(text.encode())}


def _list_files(path: Path) -> list[str]:
    every = (file for file in path.rglob("*") if file.is_file() and file.name != STATE)
    return sorted(file.relative_to(path).as_posix() for file in every)


def _bytes_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checkpoint_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("round-*") if path.is_dir())


def _checkpoint_name(round: int) -> str:
    return f"round-{round:06d}"
