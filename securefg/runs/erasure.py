"""A run again without some nodes or clients, and what all its releases together cost.

A release cannot be taken back. What can be done is a new release from what is left: a full new
session with new masks and new noise, for which every client sends its whole message again. Nobody
sends a difference, which would be the erased person's own data under little or no noise. Both
releases still have a difference, which anybody can compute. A run whose noise promises nothing is
therefore refused.

Everybody who is in both releases pays for both, and the ledgers are composed. The erased are in the
earlier releases alone, so their claim stays what it was. The books begin before the new run sends
anything: a run that was interrupted follows the earlier ones too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from securefg.data.partition import Partition
from securefg.foundation.errors import ConfigError, RunFolderError
from securefg.foundation.lock import owned
from securefg.privacy.accountants import claim
from securefg.privacy.ledger import Ledger, Mechanism, read_ledger
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.erasure_books import (
    FILE,
    Erasure,
    Together,
    later_releases,
    read_erasure,
    write_books,
)
from securefg.runs.execution import Outcome
from securefg.runs.fingerprints import require_same_data
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Observer
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.partition import REMAINING
from securefg.settings.privacy import Unit

PERSONS: Final[tuple[Unit, ...]] = ("client", "node", "features")
"""A finite epsilon of one of these hides a person. One of edges or of rows may leave the person's
other data without noise."""


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
    show_difference: bool = False,
) -> Rerelease:
    """Run again without nodes or clients, and book the cost of all releases together.

    A run that was interrupted is taken up.

    clients          numbers of this run's clients
    show_difference  whether a run may be released again although no noise hides the difference
    """
    if not folder.finished:
        raise RunFolderError(
            f"{folder.path}: found a run that has not finished; expected a release"
        )
    if not show_difference:
        _require_noise(folder)
    config, counts = _config_without(folder, nodes, clients)
    require_same_data(folder, prepare(folder.config()))
    with owned(folder.path):
        earlier = _earlier_releases(folder)
        after = tuple(str(one.path.resolve()) for one in earlier)
        planned = Erasure(after=after, delta=config.privacy.delta, **counts)
        new = _run_or_resume(config, planned, folder, observer)
    epsilon = _compose_all(earlier, new, config.privacy.delta)
    erasure = planned.model_copy(update={"epsilon": epsilon})
    write_books(new.path, erasure)
    return Rerelease(new, erasure)


def _run_or_resume(
    config: RunConfig, planned: Erasure, folder: RunFolder, observer: Observer | None
) -> RunFolder:
    """Return the new run once it has finished. Its books begin with it."""
    path = RunFolder.path_of(config)
    _refuse_branches(folder, path)
    if not path.exists():
        outcome = runner.start(config, observer, beside=partial(write_books, erasure=planned))
        return _require_end(outcome)
    begun = RunFolder.open(path)
    books = read_erasure(path)
    if books is None or books.model_copy(update={"epsilon": {}}) != planned:
        raise RunFolderError(f"{path}: found a run with other books; expected none, or this one's")
    if books.epsilon:
        raise RunFolderError(f"{path}: found this release, finished and booked; expected none")
    return begun if begun.finished else _require_end(runner.resume(begun, observer))


def _require_end(outcome: Outcome) -> RunFolder:
    if outcome.summary is None:
        raise RunFolderError(
            f"{outcome.folder.path}: the run was interrupted. The same command goes on with it"
        )
    return outcome.folder


def _require_noise(folder: RunFolder) -> None:
    """Raise if no person's claim is finite. Masks alone hide a sum's parts. Two sums whose parts
    differ by one person give that person's part away."""
    claims = [folder.summary().epsilon.get(unit) for unit in PERSONS]
    if not any(known and known.private and known.epsilon for known in claims):
        raise ConfigError(
            f"{folder.path}: found no noise that protects a person; expected a finite epsilon per "
            f"{', '.join(PERSONS[:-1])} or {PERSONS[-1]}. The difference of both releases would be "
            "the data of the erased, also under masks. --show-difference releases again all the "
            "same"
        )


def _refuse_branches(folder: RunFolder, new: Path) -> None:
    """Raise if another release follows this one. The books of two branches would not know each
    other, and who is in both would pay more than any of them says."""
    for path in later_releases(folder.path):
        if path.resolve() != new.resolve():
            raise RunFolderError(
                f"{folder.path}: found a later release, {path}; expected the newest one. "
                "Erase from that one, so that the books hold all releases"
            )


def _config_without(
    folder: RunFolder, nodes: Sequence[int], clients: Sequence[int]
) -> tuple[RunConfig, dict[str, int]]:
    """Return the config of the new run, and how many nodes and clients it leaves out."""
    if not nodes and not clients:
        raise ConfigError("erase: found nothing to erase; expected --nodes or --clients")
    config = folder.config()
    if config.training.patience is not None:
        raise ConfigError(
            "training.patience: found a run that ends early; expected null. The number of its "
            "releases is itself a result, and the books of two such runs do not add up"
        )
    held = Partition.load(folder.path / "partition.safetensors")
    _check_chosen(config, held, nodes, clients)
    tree = config.model_dump(mode="json")
    before = tree["partition"]
    if config.partition.name != REMAINING:
        before = {"name": REMAINING, "of": {**before, "name": config.partition.name}}
    emptied = _clients_emptied_by(held, nodes)
    left_out = sorted({*clients, *emptied})
    # A user's node has the user's number, which changes with every erasure.
    are_users = before["of"]["name"] == "one_node"
    gone = set(before.get("without_clients", ()))
    whole = held.num_clients + len(gone)
    old_numbers = [number for number in range(whole) if number not in gone]
    without = () if are_users else nodes
    tree["partition"] = {
        **before,
        "without_nodes": sorted({*before.get("without_nodes", ()), *without}),
        "without_clients": sorted({*gone, *(old_numbers[number] for number in left_out)}),
    }
    _renumber_members(tree["privacy"]["secure_aggregation"], left_out)
    num_nodes = len(left_out) if are_users else len(set(nodes))
    beside = folder.path.resolve().parent  # where later erasures look for it
    if config.output.root.resolve() != beside:
        tree["output"]["root"] = str(beside)
    return parse_config(tree), {"num_nodes": num_nodes, "num_clients": len(left_out)}


def _check_chosen(
    config: RunConfig, held: Partition, nodes: Sequence[int], clients: Sequence[int]
) -> None:
    """Raise unless these nodes and clients are in the run."""
    strange = sorted(set(nodes) - set(held.nodes.tolist()))
    if strange:
        raise ConfigError(f"--nodes: found {strange[0]}; expected nodes that some client holds")
    absent = sorted(number for number in clients if not 0 <= number < held.num_clients)
    if absent:
        raise ConfigError(
            f"--clients: found {absent[0]}; expected clients from 0 to {held.num_clients - 1}"
        )
    if config.centralised and clients:
        raise ConfigError("--clients: found a run with all data in one place; expected --nodes")


def _renumber_members(masking: dict[str, Any] | None, left_out: Sequence[int]) -> None:
    """Give the members whom the config names the numbers that they have in the new run."""
    members = None if masking is None else masking["committee"]["members"]
    if masking is None or members is None:
        return
    erased = sorted(set(members) & set(left_out))
    if erased:
        raise ConfigError(
            f"privacy.secure_aggregation.committee.members: found client {erased[0]} among the "
            "erased; expected members that stay. Name others in a run without this client's data, "
            "and add up both epsilons"
        )
    renumbered = [member - sum(one < member for one in left_out) for member in members]
    masking["committee"]["members"] = renumbered


def _clients_emptied_by(held: Partition, nodes: Sequence[int]) -> list[int]:
    """Return the clients that hold no other nodes than these."""
    gone = torch.isin(held.nodes, torch.tensor(list(nodes), dtype=torch.int64))
    left = torch.cat([torch.zeros(1, dtype=torch.int64), (~gone).cumsum(0)])[held.offsets]
    emptied: list[int] = (left.diff() == 0).nonzero().flatten().tolist()
    return emptied


def _earlier_releases(folder: RunFolder) -> list[RunFolder]:
    """Return the releases that a new one follows: this run, and those that it followed."""
    books = read_erasure(folder.path)
    if books is None and folder.config().partition.name == REMAINING:
        raise RunFolderError(
            f"{folder.path}: found a release after an erasure without {FILE}; expected the books "
            "of the earlier releases beside it"
        )
    before = () if books is None else books.after
    return [*(_open_earlier(Path(path), folder) for path in before), folder]


def _open_earlier(path: Path, folder: RunFolder) -> RunFolder:
    """Return an earlier release, where it was or beside this one. Its folder is named by its
    config's hash."""
    found = RunFolder.open(path if path.exists() else folder.path.parent / path.name)
    if not path.name.endswith(f"-{found.config().hash}"):
        raise RunFolderError(f"{found.path}: found another run; expected {path.name}")
    return found


def _compose_all(
    earlier: Sequence[RunFolder], new: RunFolder, delta: float
) -> dict[Unit, Together]:
    together_by_unit = {}
    for unit in new.summary().epsilon:
        together_by_unit[unit] = Together(
            now=compose_releases([new], unit, delta),
            together=compose_releases([*earlier, new], unit, delta),
            erased=compose_releases(earlier, unit, delta),
        )
    return together_by_unit


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
