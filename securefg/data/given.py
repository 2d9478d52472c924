"""Graphs that were given as objects, stored as a folder that runs, audits and hosts can read."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import DataError

MASKS = ("train", "val", "test")


def store(data: Any, root: Path) -> Path:
    """`root/HASH` with edges, features, labels, and split and clients where the data have them.

    `train_mask`, `val_mask`, `test_mask` are the split, `client` says who holds a node. The folder
    is named by its content and made once; only its owner can read it.
    """
    x, y, edges = (_tensor(data, name) for name in ("x", "y", "edge_index"))
    if y.dim() == 2 and y.shape[1] == 1:
        y = y.flatten()
    arrays = {"x": _numbers(x, np.float32), "y": _numbers(y, np.int64)}
    arrays["edge_index"] = _numbers(edges, np.int64)
    masks = {part: getattr(data, f"{part}_mask", None) for part in MASKS}
    masks = {part: value for part, value in masks.items() if value is not None}
    client = getattr(data, "client", None)
    target = root / _hash(arrays, masks, client)
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".", dir=root))
    try:
        np.savez_compressed(made / "features.npz", x=arrays["x"])
        np.savez_compressed(made / "labels.npz", y=arrays["y"])
        np.savez_compressed(made / "edges.npz", edge_index=arrays["edge_index"])
        if masks:
            (made / "split.csv").write_text(_split(masks, len(arrays["y"])))
        if client is not None:
            _write_clients(made / "clients.csv", client)
        os.replace(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return target


def _tensor(data: Any, name: str) -> Tensor:
    value = getattr(data, name, None)
    if not isinstance(value, Tensor):
        raise DataError(
            f"data.{name}: found {type(value).__name__}; wanted a tensor, as in "
            "torch_geometric.data.Data(x=..., edge_index=..., y=...)"
        )
    return value.detach().cpu()


def _numbers(value: Tensor, kind: Any) -> NDArray[Any]:
    if value.is_sparse:
        value = value.to_dense()
    if issubclass(kind, np.integer) and value.is_floating_point():
        raise DataError(f"data: found {value.dtype} where classes or nodes are wanted; integers")
    return value.numpy().astype(kind)


def _split(masks: dict[str, Any], num_nodes: int) -> str:
    lines = ["node,split"]
    taken = torch.zeros(num_nodes, dtype=torch.bool)
    for part, found in masks.items():
        mask = torch.as_tensor(found).cpu()
        if mask.shape != (num_nodes,) or mask.dtype != torch.bool:
            raise DataError(
                f"data.{part}_mask: found {tuple(mask.shape)} of {mask.dtype}; wanted "
                f"{num_nodes} booleans (choose one of several splits)"
            )
        if bool((mask & taken).any()):
            node = int((mask & taken).nonzero()[0])
            raise DataError(f"data.{part}_mask: node {node} is in two parts of the split")
        taken |= mask
        lines += [f"{node},{part}" for node in mask.nonzero().flatten().tolist()]
    return "\n".join(lines) + "\n"


def _write_clients(path: Path, client: Any) -> None:
    lines = [f"{node},{int(who)}" for node, who in enumerate(torch.as_tensor(client).tolist())]
    path.write_text("node,client\n" + "\n".join(lines) + "\n")


def _hash(arrays: dict[str, NDArray[Any]], masks: dict[str, Any], client: Any) -> str:
    digest = hashlib.sha256()
    others = {**masks, **({} if client is None else {"client": client})}
    found = {**arrays, **{name: torch.as_tensor(v).cpu().numpy() for name, v in others.items()}}
    for name, value in found.items():
        digest.update(f"{name}{value.shape}{value.dtype}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]
