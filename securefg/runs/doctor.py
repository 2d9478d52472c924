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
from securefg.foundation.errors import ConfigError, SecurefgError
from securefg.foundation.files import write_atomically
from securefg.foundation.versions import list_versions
from securefg.methods.registry import get_method
from securefg.runs.assembly import prepare
from securefg.runs.device import find_gpu, proof_file
from securefg.runs.folder import RunFolder
from securefg.runs.release_file import read_release
from securefg.runs.runner import start
from securefg.settings.config import parse_config
from securefg.settings.methods import SHIPPED

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
NODES: dict[str, Any] = {}
SAMPLES: dict[str, Any] = {"task": "sc", "num_nodes": 40, "samples_per_node": 40}
SMALL: tuple[tuple[dict[str, Any], dict[str, Any], int], ...] = tuple(
    (task, partition, rounds)
    for rounds in (2, 1)
    for task, partition in (
        (NODES, {"name": "random", "num_clients": 3}),
        (NODES, {"name": "one_node"}),
        (NODES, {"name": "public_private", "num_clients": 3}),
        (SAMPLES, {"name": "one_node"}),
    )
)
"""Data, partitions and rounds of small configs, of which every method takes one."""
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
    yield from _check_gpu()


def compare_weights(
    what: str, first_overrides: list[str], other: list[str], tree: dict[str, Any] | None = None
) -> Line:
    """Return whether a small run gives the same release and scores both ways."""
    made = TREE if tree is None else tree
    with tempfile.TemporaryDirectory() as folder:
        try:
            sides = [
                _results(made, Path(folder, n), o)
                for n, o in (("a", first_overrides), ("b", other))
            ]
        except (SecurefgError, RuntimeError) as error:  # what a device lacks is PyTorch's error
            return Line(what, "failed", str(error).partition("\n")[0])
    here, there = sides
    if here.keys() != there.keys():
        return Line(what, "wrong", f"found {sorted(there)}; expected {sorted(here)}")
    apart = max((float((here[name] - there[name]).abs().max()) for name in here), default=0.0)
    bad = "" if apart <= TOLERANCE else f"weights differ by {apart:.2g}, allowed {TOLERANCE:g}"
    return Line(what, f"the plain run's weights, within {apart:.1g}" if not bad else "wrong", bad)


def _results(tree: dict[str, Any], root: Path, overrides: list[str]) -> dict[str, torch.Tensor]:
    """Return the numbers of the released model, or of a method without one the scores."""
    config = parse_config(tree, ["device=cpu", f"output.root={root}", *overrides])
    folder = start(config).folder
    release = read_release(folder.path / "model.safetensors", get_method(config.method.name))
    values = {n: v.double().cpu() for n, v in vars(release).items() if isinstance(v, torch.Tensor)}
    found = {name: value for name, value in values.items() if value.numel()}
    return found or _scores(folder)


def _scores(folder: RunFolder) -> dict[str, torch.Tensor]:
    """Return every score of a run that releases no numbers. Raise if there is none either."""
    summary = folder.summary()
    local = summary.local_test_accuracy
    told = {"test": summary.test_accuracy, "local": None if local is None else local.pooled}
    found = {n: torch.tensor([v]).double() for n, v in told.items() if v is not None}
    if not found:
        raise ConfigError("this run has neither released numbers nor scores to compare")
    return found


def small_tree(method: str) -> dict[str, Any]:
    """Return the first small config that suits a method. Raise ConfigError if none does."""
    last_error = ""
    for task, partition, rounds in SMALL:
        data = {"name": "csbm", "csbm": {**TREE["data"]["csbm"], **task}}
        training = {**TREE["training"], "rounds": rounds}
        tree = {"method": {"name": method}, "data": data, "partition": partition}
        tree = {**tree, "training": training, "output": {"transcript_every": 0}}
        try:
            prepare(parse_config(tree, ["device=cpu"]))
        except SecurefgError as error:
            last_error = str(error).partition("\n")[0]
            continue
        return tree
    raise ConfigError(f"{method}: found no small config that it takes ({last_error}); expected one")


def _check_gpu() -> Iterator[Line]:
    """Yield a line per method on the GPU. `device: auto` takes the GPU once all methods gave the
    CPU's results there."""
    if not torch.cuda.is_available():
        yield Line("GPU", "none that PyTorch finds; runs compute on the CPU")
        return
    proof_file(find_gpu()).unlink(missing_ok=True)
    gpu_lines = []
    for method in SHIPPED:
        gpu_lines.append(
            compare_weights(f"{method} on {find_gpu()}", [], ["device=cuda"], small_tree(method))
        )
        yield gpu_lines[-1]
    if not any(line.bad for line in gpu_lines):
        proof_file(find_gpu()).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(
            proof_file(find_gpu()), "\n".join(f"{each.what}: {each.found}" for each in gpu_lines)
        )


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
