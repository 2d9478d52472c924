"""Fingerprints of a run's data: an audit on other data is refused, naming what changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.partition import MANY_CLIENTS, Partition
from securefg.data.shard import Shard, load_shards
from securefg.foundation.errors import DataError, RunFolderError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings
from securefg.runs.assembly import Experiment
from securefg.runs.folder import RunFolder

DIGITS = 16
FILE = "fingerprints.json"


class Fingerprints(Settings):
    """A set of shortened SHA-256 of every part. `shards` are by client, in their order."""

    features: str
    labels: str
    edges: str
    split: str
    partition: str
    shards: tuple[str, ...]

    def changed_names(self, now: Fingerprints) -> list[str]:
        """Return what differs, by name."""
        names = ("features", "labels", "edges", "split", "partition")
        changed_parts = [name for name in names if getattr(self, name) != getattr(now, name)]
        if len(self.shards) != len(now.shards):
            return [*changed_parts, f"number of shards ({len(self.shards)}, now {len(now.shards)})"]
        pairs = enumerate(zip(self.shards, now.shards, strict=True))
        clients = [str(k) for k, (was, at_present) in pairs if was != at_present]
        if clients:
            more = f" and {len(clients) - 5} more" if len(clients) > 5 else ""
            changed_parts.append(f"shard of client {', '.join(clients[:5])}{more}")
        return changed_parts


def fingerprints_of(experiment: Experiment) -> Fingerprints:
    """Return the fingerprints. With very many clients no shard has its own: graph and partition say
    what each client holds."""
    union, listed = experiment.union, experiment.partition.num_clients <= MANY_CLIENTS
    return Fingerprints(
        **_of_graph(union),
        partition=_of_partition(experiment.partition),
        shards=tuple(map(of_shard, experiment.shards)) if listed else (),
    )


def write_fingerprints(folder: Path, experiment: Experiment) -> None:
    """Write the fingerprints of a run's data into its folder, where all of the data is here."""
    if experiment.has_truth:
        write_json(folder / FILE, fingerprints_of(experiment).model_dump(mode="json"))


def read_fingerprints(folder: Path) -> Fingerprints | None:
    """Return the fingerprints, or None if the data was never here: a deployed run's stays at the
    sites."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return Fingerprints.model_validate_json(read_bounded(path))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: no fingerprints can be read here") from error


def require_data_here(folder: RunFolder) -> Fingerprints:
    """Refuse to load any data for a run that was made at sites: theirs never was here."""
    stored = read_fingerprints(folder.path)
    if stored is None:
        raise RunFolderError(
            f"{folder.path}: the data of this run is not here; each site audits its own part with "
            "`securefg deploy audit`"
        )
    return stored


def require_same_data(folder: RunFolder, experiment: Experiment) -> None:
    """Refuse an audit on other data than the run's, by name of what changed."""
    stored, summed = require_data_here(folder), folder.summary().fingerprints
    if digest_of(stored) != summed:
        raise RunFolderError(f"{folder.path}/{FILE} was changed after the run")
    changed = [*stored.changed_names(fingerprints_of(experiment)), *_changed_files(folder, stored)]
    if changed:
        raise RunFolderError(
            f"{folder.path}: not the data of this run; changed since then: {', '.join(changed)}"
        )


def require_unchanged(folder: Path, experiment: Experiment) -> None:
    """Refuse to go on with a run on other data than it was begun with."""
    stored = read_fingerprints(folder)
    changed = [] if stored is None else stored.changed_names(fingerprints_of(experiment))
    if changed:
        raise RunFolderError(
            f"{folder}: not the data that this run was begun with; changed since then: "
            f"{', '.join(changed)}"
        )


def digest_of(found: Fingerprints) -> str:
    """Return one fingerprint of all, for the summary."""
    text = json.dumps(found.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _changed_files(folder: RunFolder, stored: Fingerprints) -> list[str]:
    """Return the changed copies of partition and shards, if there are any."""
    changed_files = []
    partition = folder.path / "partition.safetensors"
    try:
        if _of_partition(Partition.load(partition)) != stored.partition:
            changed_files.append("partition.safetensors")
    except DataError:
        changed_files.append("partition.safetensors")
    for path in sorted(folder.shards.glob("*.safetensors")):
        try:
            wrong = any(_is_another(shard, stored) for shard in load_shards(path))
        except DataError:
            wrong = True
        if wrong:
            changed_files.append(f"private/shards/{path.name}")
    return changed_files


def _is_another(shard: Shard, stored: Fingerprints) -> bool:
    return shard.client >= len(stored.shards) or of_shard(shard) != stored.shards[shard.client]


def of_shard(shard: Shard) -> str:
    """Return the digest of a client's nodes, features, labels, edges and split."""
    parts = _of_graph(shard.graph)
    return _hash_inputs(str(shard.client), shard.node_ids, shard.public, *parts.values())


def _of_graph(graph: Graph) -> dict[str, str]:
    split = graph.split
    return {
        "features": _hash_inputs(graph.features),
        "labels": _hash_inputs(graph.labels, str(graph.num_classes)),
        "edges": _hash_inputs(
            *(e for e in (graph.edge_index, graph.edge_features) if e is not None)
        ),
        "split": _hash_inputs(split.train, split.val, split.test),
    }


def _of_partition(partition: Partition) -> str:
    return _hash_inputs(partition.nodes, partition.offsets, partition.public)


def _hash_inputs(*parts: Tensor | str | None) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            array = part.detach().cpu().contiguous().numpy()
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()[:DIGITS]
