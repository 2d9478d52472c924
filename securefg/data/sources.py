"""The raw files of a published dataset, found or fetched, and a processed copy in the user's cache.

The layout is that of the PyTorch Geometric loaders, so one folder serves both. A copy is keyed by
the names, sizes and times of the raw files and by the version of the readers; it carries a
checksum, and a copy that does not fit it is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from securefg.data.dataset import Dataset
from securefg.data.readers.geometric import download
from securefg.foundation.errors import DataError
from securefg.foundation.files import write_atomically

READER_VERSION = 1


def cache_folder() -> Path:
    """SECUREFG_CACHE, else `securefg` in XDG_CACHE_HOME, else in ~/.cache."""
    if own := os.environ.get("SECUREFG_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "securefg"


def cached_dataset(name: str, raw_files: Iterable[Path], build: Callable[[], Dataset]) -> Dataset:
    """The stored copy of the dataset if it is whole, else a new one."""
    path = cache_folder() / "processed" / f"{name}-{_cache_key(raw_files)}.safetensors"
    stored = _read_stored(path)
    if stored is not None:
        return stored
    dataset = build()
    # Where nothing can be stored the dataset is read from its raw files every time.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _pack_dataset(dataset))
    return dataset


def _cache_key(raw_files: Iterable[Path]) -> str:
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in raw_files]
    return hashlib.sha256(repr((READER_VERSION, facts)).encode()).hexdigest()[:16]


def _pack_dataset(dataset: Dataset) -> bytes:
    tensors = {name: value.contiguous().clone() for name, value in dataset.tensors().items()}
    packed: bytes = save({**tensors, "checksum": torch.tensor(_tensors_checksum(tensors))})
    return packed


def _read_stored(path: Path) -> Dataset | None:
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
        intact = int(tensors.pop("checksum")) == _tensors_checksum(tensors)
        return Dataset.from_tensors(tensors) if intact else None
    except (OSError, SafetensorError, KeyError, TypeError):
        return None


def _tensors_checksum(tensors: dict[str, torch.Tensor]) -> int:
    check = 0
    for name in sorted(tensors):
        check = zlib.crc32(tensors[name].numpy().tobytes(), check)
    return check


_BY_HAND = {
    "acm": "SDCN",
    "wiki": "TADW",
    "twitch": "MUSAE",
    "chameleonfiltered": "heterophilous-graphs",
    "squirrelfiltered": "heterophilous-graphs",
    "amlsim": "AMLSim",
}


def locate_files(name: str, files: Sequence[str], root: Path | None) -> Path:
    """The folder that holds `files`: `root`, else SECUREFG_DATA, else a download in the cache."""
    given = root or (Path(env) if (env := os.environ.get("SECUREFG_DATA")) else None)
    if given is not None and _holds_files(given, files):
        return given
    fetched = cache_folder() / "raw"
    if all((fetched / file).is_file() for file in files):
        return fetched
    return _fetch_files(name, files, given)


def _holds_files(folder: Path, files: Sequence[str]) -> bool:
    """All of the files or none; some of them is a fault to be told, not to be worked around."""
    missing = [file for file in files if not (folder / file).is_file()]
    if missing and len(missing) < len(files):
        there = len(files) - len(missing)
        raise DataError(f"{folder / missing[0]}: missing, though {there} of its files are there")
    return not missing


def _fetch_files(name: str, files: Sequence[str], given: Path | None) -> Path:
    """Download beside the target and move the files over once all are there."""
    if name in _BY_HAND:
        way = f"there is no loader to download it: its files are in the {_BY_HAND[name]} repository"
        raise _unavailable_error(name, files, given, way)
    target = cache_folder() / "raw"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as temporary:
            download(name, Path(temporary))
            for file in files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(temporary) / file, target / file)
    except Exception as error:
        # The loader raises what its network library raises; for the user all of it means "no".
        reason = str(error).partition("\n")[0] or type(error).__name__
        way = f"or allow the download, which failed: {reason}"
        raise _unavailable_error(name, files, given, way) from error
    return target


def _unavailable_error(name: str, files: Sequence[str], given: Path | None, way: str) -> DataError:
    looked = f"{given} has no {files[0]}" if given else "neither data.root nor SECUREFG_DATA is set"
    return DataError(
        f"dataset {name!r}: {looked}; set data.root or SECUREFG_DATA to a folder with {files[0]}\n"
        f"{way}"
    )
