"""Processed copies of the raw files, in the user's cache.

A copy is keyed by the names, sizes and times of the raw files and by the version of the readers;
it carries a checksum, and a copy that does not fit it is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from securefg.data.dataset import Dataset
from securefg.foundation.files import write_atomically

READER_VERSION = 1


def cache_folder() -> Path:
    """SECUREFG_CACHE, else `securefg` in XDG_CACHE_HOME, else in ~/.cache."""
    if own := os.environ.get("SECUREFG_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "securefg"


def cached(name: str, raw_files: Iterable[Path], build: Callable[[], Dataset]) -> Dataset:
    """The stored copy of the dataset if it is whole, else a new one."""
    path = cache_folder() / "processed" / f"{name}-{_key(raw_files)}.safetensors"
    stored = _stored(path)
    if stored is not None:
        return stored
    dataset = build()
    # Where nothing can be stored the dataset is read from its raw files every time.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _packed(dataset))
    return dataset


def _key(raw_files: Iterable[Path]) -> str:
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in raw_files]
    return hashlib.sha256(repr((READER_VERSION, facts)).encode()).hexdigest()[:16]


def _packed(dataset: Dataset) -> bytes:
    tensors = {name: value.contiguous().clone() for name, value in dataset.tensors().items()}
    packed: bytes = save({**tensors, "checksum": torch.tensor(_checksum(tensors))})
    return packed


def _stored(path: Path) -> Dataset | None:
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
        intact = int(tensors.pop("checksum")) == _checksum(tensors)
        return Dataset.from_tensors(tensors) if intact else None
    except (OSError, SafetensorError, KeyError, TypeError):
        return None


def _checksum(tensors: dict[str, torch.Tensor]) -> int:
    check = 0
    for name in sorted(tensors):
        check = zlib.crc32(tensors[name].numpy().tobytes(), check)
    return check
