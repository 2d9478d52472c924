"""A run again without some nodes or clients, and what all its releases together cost.

A release cannot be taken back. What can be done is a new release from what is left: a full new
session with new masks and new noise, for which every client sends its whole message again. Nobody
sends a difference, which would be the erased person's own data under little or no noise.

Everybody who is in both releases pays for both, and the ledgers are composed. The erased are in the
earlier releases alone, so their claim stays what it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import NonNegativeFloat, ValidationError

from securefg.data.partition import Partition
from securefg.foundation.errors import ConfigError, RunFolderError
from securefg.foundation.files import PRIVATE, write_json
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings
from securefg.privacy.accountants import claim
from securefg.privacy.ledger import Ledger, Mechanism, read_ledger
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Observer
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.privacy import Unit

FILE: Final = "erasure.json"
REMAINING: Final = "remaining"


class Together(Settings):
    """Epsilons of a unit. None is infinite.

    now       of the new release
    together  of all releases, for everybody who is in all of them
    erased    of the earlier releases, which is what the erased are left with
    """

    now: NonNegativeFloat | None
    together: NonNegativeFloat | None
    erased: NonNegativeFloat | None


class Erasure(Settings):
    """A re-release: which runs it follows, how much was taken out, and what all of them cost.

    after  folders of the earlier runs, the first one first
    """

    after: tuple[str, ...]
    num_nodes: int
    num_clients: int
    delta: float
    epsilon: dict[Unit, Together]


@dataclass(frozen=True)
class Rerelease:
    """A new run, with its books."""

    folder: RunFolder
    erasure: Erasure


def release_without(
    folder: RunFolder,
    nodes: Sequence[int],
    clients: Sequence[int],
    observer: Observer | None = None,
) -> Rerelease:
    """Run again without nodes or clients, and book the cost of all releases together.

    clients  numbers of this run's clients
    """
    if not folder.finished:
        raise RunFolderError(
            f"{folder.path}: found a run that has not finished; expected a release"
        )
    config = _config_without(folder, nodes, clients)
    earlier = _earlier_releases(folder)
    outcome = runner.start(config, observer)
    partition = Partition.load(folder.path / "partition.safetensors")
    left = Partition.load(outcome.folder.path / "partition.safetensors")
    erasure = Erasure(
        after=tuple(str(one.path.resolve()) for one in earlier),
        num_nodes=len(set(nodes)),
        num_clients=partition.num_clients - left.num_clients,
        delta=config.privacy.delta,
        epsilon=_compose_all(earlier, outcome.folder, config.privacy.delta),
    )
    path = outcome.folder.path / FILE
    write_json(path, erasure.model_dump(mode="json"), mode=PRIVATE)
    return Rerelease(outcome.folder, erasure)


def read_erasure(path: Path) -> Erasure | None:
    """Return the books of a run's folder if it is a re-release, else None."""
    if not (path / FILE).is_file():
        return None
    try:
        return Erasure.model_validate_json(read_bounded(path / FILE))
    except ValidationError as error:
        raise RunFolderError(f"{path / FILE}: found no books of a re-release: {error}") from error


def _config_without(folder: RunFolder, nodes: Sequence[int], clients: Sequence[int]) -> RunConfig:
    if not nodes and not clients:
        raise ConfigError("erase: found nothing to erase; expected --nodes or --clients")
    config = folder.config()
    if config.training.patience is not None:
        raise ConfigError(
            "training.patience: found a run that ends early; expected null. The number of its "
            "releases is itself a result, and the books of two such runs do not add up"
        )
    held = Partition.load(folder.path / "partition.safetensors")
    strange = sorted(set(nodes) - set(held.nodes.tolist()))
    if strange:
        raise ConfigError(f"--nodes: found {strange[0]}; expected nodes that some client holds")
    absent = sorted(number for number in clients if not 0 <= number < held.num_clients)
    if absent:
        raise ConfigError(
            f"--clients: found {absent[0]}; expected clients from 0 to {held.num_clients - 1}"
        )
    tree = config.model_dump(mode="json")
    before = tree["partition"]
    if config.partition.name != REMAINING:
        before = {"name": REMAINING, "of": {**before, "name": config.partition.name}}
    gone = set(before.get("without_clients", ()))
    whole = held.num_clients + len(gone)
    old_numbers = [number for number in range(whole) if number not in gone]
    tree["partition"] = {
        **before,
        "without_nodes": sorted({*before.get("without_nodes", ()), *nodes}),
        "without_clients": sorted({*gone, *(old_numbers[number] for number in clients)}),
    }
    return parse_config(tree)


def _earlier_releases(folder: RunFolder) -> list[RunFolder]:
    """Return the releases that a new one follows: this run, and those that it followed."""
    books = read_erasure(folder.path)
    before = () if books is None else books.after
    return [*(RunFolder.open(Path(path)) for path in before), folder]


def _compose_all(
    earlier: Sequence[RunFolder], new: RunFolder, delta: float
) -> dict[Unit, Together]:
    found = {}
    for unit in new.summary().epsilon:
        found[unit] = Together(
            now=compose_releases([new], unit, delta),
            together=compose_releases([*earlier, new], unit, delta),
            erased=compose_releases(earlier, unit, delta),
        )
    return found


def compose_releases(folders: Sequence[RunFolder], unit: Unit, delta: float) -> float | None:
    """Return the epsilon of several runs together, or None if one of them has no finite claim.

    Every field counts as often as at the client that released it most, in every run.
    """
    profile: Counter[Mechanism] = Counter()
    for folder in folders:
        known = folder.summary().epsilon.get(unit)
        if known is None or known.epsilon is None or not known.private:
            return None
        ledger = Ledger(Partition.load(folder.path / "partition.safetensors").num_clients)
        ledger.record(list(read_ledger(folder.ledger_path)))
        for mechanism in ledger.mechanisms:
            profile[mechanism] += int(ledger.counts(mechanism).max())
    epsilon = claim([dict(profile)], unit, delta).epsilon
    return epsilon if math.isfinite(epsilon) else None
