"""Shards in a file: how a host in a process of its own gets its clients' data and no one else's."""

from __future__ import annotations

import json
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from securefg.data.graph import Graph, Split
from securefg.data.shard import Shard
from securefg.foundation.errors import DataError
from securefg.foundation.files import write_atomically


def save_shards(path: Path, shards: tuple[Shard, ...]) -> None:
    arrays: dict[str, Tensor] = {}
    for i, shard in enumerate(shards):
        graph = shard.graph
        parts = {
            "node_ids": shard.node_ids,
            "features": graph.features,
            "edge_index": graph.edge_index,
            "labels": graph.labels,
            "train": graph.split.train,
            "val": graph.split.val,
            "test": graph.split.test,
        }
        if shard.public is not None:
            parts["public"] = shard.public
        arrays.update({f"{i}.{name}": part.clone() for name, part in parts.items()})
    facts = [
        {
            "client": s.client,
            "name": s.graph.name,
            "num_classes": s.graph.num_classes,
            "directed": s.graph.directed,
            "public": s.public is not None,
        }
        for s in shards
    ]
    write_atomically(path, safetensors.torch.save(arrays, metadata={"shards": json.dumps(facts)}))


def load_shards(path: Path) -> tuple[Shard, ...]:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["shards"])
            return tuple(_shard(file, i, fact) for i, fact in enumerate(facts))
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: found {error!r}; wanted stored shards") from error


def _shard(file: safetensors.safe_open, i: int, fact: dict[str, object]) -> Shard:
    def get(name: str) -> Tensor:
        return file.get_tensor(f"{i}.{name}")  # type: ignore[no-any-return, no-untyped-call]

    client = fact.pop("client")
    public = get("public") if fact.pop("public", False) else None
    graph = Graph(
        features=get("features"),
        edge_index=get("edge_index"),
        labels=get("labels"),
        split=Split(get("train"), get("val"), get("test")),
        **fact,  # type: ignore[arg-type]
    )
    return Shard(client, get("node_ids"), graph, public)  # type: ignore[arg-type]
