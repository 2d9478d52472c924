"""A check of this machine: what it has, and whether small runs compute what they should."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from securefg.data.sources import cache_folder
from securefg.foundation.errors import SecurefgError
from securefg.foundation.files import write_atomically
from securefg.foundation.versions import list_versions
from securefg.methods.registry import get_method
from securefg.runs.device import find_gpu, proof_file
from securefg.runs.release_file import read_release
from securefg.runs.runner import start
from securefg.settings.config import parse_config

EXTRAS = {
    "faiss": "faiss",
    "nvflare": "flare",
    "pymetis": "metis",
    "pandas": "pandas",
    "pyarrow": "parquet",
    "tensorboard": "tensorboard",
}
TOLERANCE = 1e-3
"""Of single weights after three rounds: rounding on another device, or of masked sums."""

TREE: dict[str, Any] = {
    "method": {"name": "fedavg"},
    "data": {"name": "csbm", "csbm": {"task": "dnc", "num_nodes": 120, "num_features": 30}},
    "partition": {"name": "random", "num_clients": 3},
    "training": {"rounds": 3, "local_epochs": 1, "patience": None, "final_model": "last"},
}
MASKED = "privacy.secure_aggregation={dropout: 0, corrupt: 0}"


@dataclass(frozen=True)
class Line:
    """A thing that was looked at. `bad` says what is wrong with it."""

    what: str
    found: str
    bad: str = ""


def examine_machine() -> Iterator[Line]:
    """Yield the checks line by line, since the last ones take seconds."""
    yield Line(
        "versions", ", ".join(f"{name} {number}" for name, number in list_versions().items())
    )
    missing = [extra for package, extra in EXTRAS.items() if not _has_package(package)]
    yield Line("extras missing", ", ".join(f"securefg[{extra}]" for extra in missing) or "none")
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield Line("machine", f"{os.cpu_count()} cores, {pages / 2**30:.1f} GiB of memory")
    yield _check_data()
    yield _check_cache()
    yield compare_weights("a run under masks", [], [MASKED])
    yield _check_gpu()


def compare_weights(what: str, one: list[str], other: list[str]) -> Line:
    """Return whether a small run gives the same weights both ways."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            weights = [_run_weights(Path(folder, "a"), one), _run_weights(Path(folder, "b"), other)]
        except SecurefgError as error:
            return Line(what, "failed", str(error).partition("\n")[0])
    apart = float((weights[0] - weights[1]).abs().max())
    bad = "" if apart <= TOLERANCE else f"weights differ by {apart:.2g}, allowed {TOLERANCE:g}"
    return Line(what, f"the plain run's weights, within {apart:.1g}" if not bad else "wrong", bad)


def _run_weights(root: Path, overrides: list[str]) -> torch.Tensor:
    config = parse_config(TREE, ["device=cpu", f"output.root={root}", *overrides])
    path = start(config).folder.path / "model.safetensors"
    release: Any = read_release(path, get_method(config.method.name))
    weights: torch.Tensor = release.weights
    return weights.cpu()


def _check_gpu() -> Line:
    """Return the line about the GPU. A run whose weights are the CPU's proves it for `device:
    auto`."""
    if not torch.cuda.is_available():
        return Line("GPU", "none that PyTorch finds; runs compute on the CPU")
    line = compare_weights(f"GPU: {find_gpu()}", [], ["device=cuda"])
    if line.bad:
        proof_file(find_gpu()).unlink(missing_ok=True)
    else:
        proof_file(find_gpu()).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(proof_file(find_gpu()), line.found)
    return line


def _check_data() -> Line:
    root = os.environ.get("SECUREFG_DATA")
    if not root:
        return Line("data", "SECUREFG_DATA is not set; datasets are downloaded")
    folder = Path(root)
    if not folder.is_dir():
        return Line("data", root, "SECUREFG_DATA names no folder")
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    return Line("data", f"{root}: {', '.join(found) or 'empty'}")


def _check_cache() -> Line:
    folder = cache_folder()
    place = next(path for path in (folder, *folder.parents) if path.exists())
    return Line("cache", str(folder), "" if os.access(place, os.W_OK) else "cannot be written")


def _has_package(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
