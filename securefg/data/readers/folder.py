"""Bring your own: a folder with edges, features, labels and, if there is one, a split.

    edges.csv     source,target                 or edges.npz     edge_index (2, E)
    features.csv  node,value,value,...          or features.npz  x (N, d), or scipy's CSR parts
    labels.csv    node,label                    or labels.npz    y (N,)
    split.csv     node,train|val|test           optional; a node may be left out
    edge_features.npz  edge_attr (E, k)         optional, in the order of the edges; mirrored (k,)
                                                says which number each is from the other end
    clients.csv   node,client                   optional, for `partition: {name: given}`; a node
                                                may be with several clients

Nodes are 0..N-1, each once, in any order; labels are 0..C-1 without gaps, or -1 for a node without
a label. A first line without a number is a header. Edges are taken as undirected. `store` writes a
graph that was given as an object into such a folder.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from securefg.data.dataset import Dataset, no_split
from securefg.data.graph import both_ways, undirected
from securefg.data.tables import Table, read_table, table_fault, text_lines, without_header
from securefg.foundation.errors import DataError
from securefg.foundation.npz import read_npz, room_for
from securefg.foundation.quoting import shown

_Reader = Callable[[Path], NDArray[Any]]


def read(folder: Path) -> Dataset:
    """The folder as a dataset; every fault names the file and the line (csv) or row (npz)."""
    if not folder.is_dir():
        raise DataError(f"{folder}: found no such folder; wanted one of `securefg data prepare`")
    features = _read_either(folder, "features", csv_features, npz_features)
    num_nodes = len(features)
    labels = _read_either(
        folder,
        "labels",
        lambda path: csv_labels(path, num_nodes),
        lambda path: npz_labels(path, num_nodes),
    )
    edges = _read_either(
        folder,
        "edges",
        lambda path: csv_edges(path, num_nodes),
        lambda path: npz_edges(path, num_nodes),
    )
    edge_index, numbers = _with_numbers(folder / EDGE_FEATURES, edges, num_nodes)
    parts = _read_split(folder / "split.csv", num_nodes)
    _require_labels(folder / "split.csv", parts, labels)
    return Dataset(
        features=torch.from_numpy(features.astype(np.float32)),
        edge_index=edge_index,
        edge_features=numbers,
        labels=torch.from_numpy(labels),
        train=parts[0],
        val=parts[1],
        test=parts[2],
        owners=_read_owners(folder / "clients.csv", num_nodes),
    )


EDGE_FEATURES: Final = "edge_features.npz"


def _with_numbers(
    path: Path, edges: NDArray[np.int64], num_nodes: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the edges both ways, and the numbers that they carry where there is a file of them."""
    ends = torch.from_numpy(edges)
    if not path.is_file():
        return undirected(ends, num_nodes), None
    arrays = read_npz(path)
    numbers = arrays.get("edge_attr")
    if numbers is None or numbers.ndim != 2 or numbers.dtype.kind not in "fiub":
        raise DataError(
            f"{path}: found {', '.join(arrays) or 'no arrays'}; wanted edge_attr (E, k)"
        )
    count, width = edges.shape[1], numbers.shape[1]
    if len(numbers) != count or not width:
        raise _array_fault(
            path, "edge_attr", f"shape {numbers.shape}", f"({count}, k): a row per edge"
        )
    for row, column in np.argwhere(~(np.abs(numbers) <= np.finfo(np.float32).max))[:1]:
        found = f"{numbers[row, column]} in row {row + 1}"
        raise _array_fault(path, "edge_attr", found, "finite float32 numbers")
    mirrored = arrays.get("mirrored", np.arange(width))
    if mirrored.dtype.kind not in "iu" or not np.array_equal(np.sort(mirrored), np.arange(width)):
        raise _array_fault(
            path, "mirrored", shown(mirrored.tolist()), f"every one of 0 to {width - 1}"
        )
    rows = torch.from_numpy(numbers.astype(np.float32))
    return both_ways(ends, rows, torch.from_numpy(mirrored.astype(np.int64)), num_nodes)


def _require_labels(path: Path, parts: tuple[torch.Tensor, ...], labels: NDArray[np.int64]) -> None:
    """What trains or is scored has a label."""
    for part, name in zip(parts, PARTS, strict=True):
        for node in np.flatnonzero(part.numpy().any(0) & (labels < 0))[:1]:
            raise DataError(f"{path}: found node {node} without a label in {name}; wanted a label")


def _read_either(folder: Path, stem: str, csv: _Reader, npz: _Reader) -> NDArray[Any]:
    """Read `stem`.csv or `stem`.npz, whichever is there; both would leave open which one counts."""
    existing_files = [
        path for path in (folder / f"{stem}.csv", folder / f"{stem}.npz") if path.is_file()
    ]
    if len(existing_files) != 1:
        what = "both" if existing_files else "neither"
        raise DataError(f"{folder}: found {what} of {stem}.csv and {stem}.npz; wanted one of them")
    return csv(existing_files[0]) if existing_files[0].suffix == ".csv" else npz(existing_files[0])


def _read_owners(path: Path, num_nodes: int) -> torch.Tensor | None:
    """Every node's client, 0 to K-1 without gaps: (N,), or (N, K) where one has several."""
    if not path.is_file():
        return None
    table = read_table(path, np.int64, columns=2, delimiter=",", header=True)
    nodes, clients = table.values.T
    table.require_nodes(0, num_nodes)
    table.require(clients >= 0, 1, "a client from 0")
    _no_gaps(table, "client")
    held = torch.zeros(num_nodes, int(clients.max()) + 1, dtype=torch.bool)
    held[torch.from_numpy(nodes), torch.from_numpy(clients)] = True
    if int(held.sum()) < len(table):
        raise DataError(f"{path}: found a node and its client twice; wanted every holding once")
    for node in (~held.any(1)).nonzero().flatten().tolist()[:1]:
        raise DataError(f"{path}: found no client for node {node}; wanted one for every node")
    return held if int(held.sum()) > num_nodes else held.int().argmax(1)


def _read_split(path: Path, num_nodes: int) -> tuple[torch.Tensor, ...]:
    if not path.is_file():
        return (no_split(num_nodes),) * 3
    assigned = csv_split(path, num_nodes)
    return tuple(torch.from_numpy(assigned == part)[None] for part in PARTS)


PARTS = ("train", "val", "test")


def csv_features(path: Path) -> NDArray[np.float64]:
    """Lines of `node,value,value,...`, as one row per node."""
    table = read_table(path, np.float64, delimiter=",", header=True)
    if table.values.shape[1] < 2:
        raise table.fault(0, "a node without a feature", "node,value,value,...")
    finite = np.abs(table.values[:, 1:]) <= np.finfo(np.float32).max
    for row, column in np.argwhere(~finite)[:1]:
        value = table.values[row, column + 1]
        raise table.fault(int(row), f"{value} as feature {column + 1}", "a finite float32")
    whole = np.isfinite(table.values[:, 0]) & (np.floor(table.values[:, 0]) == table.values[:, 0])
    table.require(whole, 0, "an integer node id")
    return _by_node(table, len(table))[:, 1:]


def csv_labels(path: Path, num_nodes: int) -> NDArray[np.int64]:
    """Lines of `node,label` in the order of the nodes; -1 is a node without a label."""
    table = read_table(path, np.int64, columns=2, delimiter=",", header=True)
    table.require(table.values[:, 1] >= -1, 1, "a label from 0, or -1 for none")
    if not (table.values[:, 1] >= 0).any():
        raise table.fault(0, "no node with a label", "at least one label from 0")
    _no_gaps(table, "label")
    ordered: NDArray[np.int64] = _by_node(table, num_nodes)[:, 1]
    return ordered.copy()


def csv_edges(path: Path, num_nodes: int) -> NDArray[np.int64]:
    """Lines of `source,target`, as (2, E)."""
    table = read_table(path, np.int64, columns=2, delimiter=",", header=True)
    for column in (0, 1):
        table.require_nodes(column, num_nodes)
    return np.ascontiguousarray(table.values.T)


def csv_split(path: Path, num_nodes: int) -> NDArray[np.str_]:
    """Lines of `node,part`; the part of every node, "" for a node that is left out."""
    assigned = np.full(num_nodes, "", dtype="<U5")
    lines = text_lines(path)
    # Only here can a row have no number and still be no header: "seven,train" is a fault.
    has_header = lines[0][1].split(",")[-1].strip() not in PARTS
    for line, text in without_header(path, lines, ",") if has_header else lines:
        node, part = _split_line(path, line, text, num_nodes)
        if assigned[node]:
            raise table_fault(path, line, f"node {node} a second time", "every node at most once")
        assigned[node] = part
    return assigned


def _split_line(path: Path, line: int, text: str, num_nodes: int) -> tuple[int, str]:
    node, _, part = (field.strip() for field in text.partition(","))
    if part not in PARTS:
        raise table_fault(path, line, repr(text), "node,train or node,val or node,test")
    if not node.isdecimal() or len(node) > 18 or int(node) >= num_nodes:
        raise table_fault(path, line, f"node {node!r}", f"a node from 0 to {num_nodes - 1}")
    return int(node), part


def _by_node(table: Table, num_nodes: int) -> NDArray[Any]:
    """The rows in the order of the nodes in the first column, of which each must be there once."""
    table.require_nodes(0, num_nodes)
    nodes = table.values[:, 0].astype(np.int64)
    first = np.zeros(len(nodes), dtype=bool)
    first[np.unique(nodes, return_index=True)[1]] = True
    for row in np.flatnonzero(~first)[:1]:
        raise table.fault(int(row), f"node {nodes[row]} a second time", "every node once")
    missing = np.setdiff1d(np.arange(num_nodes), nodes)
    if missing.size:
        last = table.lines[-1]
        raise DataError(
            f"{table.path}, line {last}: found the end of the file and no node {missing[0]}; "
            f"wanted every node from 0 to {num_nodes - 1}"
        )
    return table.values[np.argsort(nodes)]


def _no_gaps(table: Table, what: str) -> None:
    seen_numbers = np.unique(table.values[:, 1])
    seen_numbers = seen_numbers[seen_numbers >= 0]
    gaps = np.flatnonzero(seen_numbers != np.arange(len(seen_numbers)))
    if gaps.size:
        row = int(np.argmax(table.values[:, 1] == seen_numbers[gaps[0]]))
        raise table.fault(
            row,
            f"{what} {seen_numbers[gaps[0]]} but never {what} {gaps[0]}",
            f"{what}s from 0 without gaps",
        )


_CSR = ("data", "indices", "indptr", "shape")


def npz_features(path: Path) -> NDArray[Any]:
    """`x` of shape (N, d), or the parts that `scipy.sparse.save_npz` writes for a CSR matrix."""
    arrays = read_npz(path)
    x = arrays["x"] if "x" in arrays else _to_dense(path, arrays)
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiub":
        raise _array_fault(
            path, "x", f"shape {x.shape} of {x.dtype}", "(N, d) numbers, none of them 0"
        )
    for row, column in np.argwhere(~(np.abs(x) <= np.finfo(np.float32).max))[:1]:
        raise _array_fault(
            path, "x", f"{x[row, column]} in row {row + 1}", "finite float32 numbers"
        )
    return x


def npz_labels(path: Path, num_nodes: int) -> NDArray[np.int64]:
    """`y` of shape (N,); -1 is a node without a label."""
    y = _read_integers(path, "y")
    if y.shape != (num_nodes,):
        raise _array_fault(
            path, "y", f"shape {y.shape}", f"one label for each of {num_nodes} nodes"
        )
    found = np.unique(y[y >= 0])
    if y.min() < -1 or not found.size or not np.array_equal(found, np.arange(len(found))):
        wanted = "labels 0 to C-1 without gaps, or -1 for none"
        raise _array_fault(path, "y", f"labels {y.min()} to {y.max()}", wanted)
    return y


def npz_edges(path: Path, num_nodes: int) -> NDArray[np.int64]:
    """`edge_index` of shape (2, E)."""
    ends = _read_integers(path, "edge_index")
    if ends.ndim != 2 or ends.shape[0] != 2 or not ends.shape[1]:
        raise _array_fault(path, "edge_index", f"shape {ends.shape}", "(2, E), at least one edge")
    outside = np.argwhere(((ends < 0) | (ends >= num_nodes)).T)
    for edge, end in outside[:1]:
        found = f"node {ends[end, edge]} in edge {edge + 1}"
        raise _array_fault(path, "edge_index", found, f"nodes from 0 to {num_nodes - 1}")
    return ends


def _to_dense(path: Path, arrays: Any) -> NDArray[Any]:
    if any(part not in arrays for part in _CSR):
        found = ", ".join(arrays) or "no arrays"
        raise DataError(f"{path}: found {found}; wanted x, or {', '.join(_CSR)} of a CSR matrix")
    if "format" in arrays and arrays["format"].tolist() not in (b"csr", "csr"):
        raise _array_fault(path, "format", shown(arrays["format"].tolist()), "csr")
    try:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        shape = tuple(np.atleast_1d(arrays["shape"]).tolist())
        return dense_csr(*parts, shape, sum(part.nbytes for part in parts))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: found {error}; wanted the parts of a CSR matrix") from error


def _read_integers(path: Path, name: str) -> NDArray[np.int64]:
    arrays = read_npz(path)
    if name not in arrays:
        raise DataError(f"{path}: found {', '.join(arrays) or 'no arrays'}; wanted {name}")
    if arrays[name].dtype.kind not in "iu":
        raise _array_fault(path, name, f"numbers of {arrays[name].dtype}", "integers")
    return np.ascontiguousarray(arrays[name], np.int64)


def _array_fault(path: Path, array: str, found: str, wanted: str) -> DataError:
    return DataError(f"{path}, array {array}: found {found}; wanted {wanted}")


MOST_TIMES: Final = 512
"""A dense matrix may be so many times larger than it was stored: words are sparse."""


def dense_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[Any, ...],
    stored: int,
) -> NDArray[Any]:
    """The matrix, or a ValueError; scipy would follow any index, to wherever it leads.

    stored  the bytes that it came in, which limit how large it may become
    """
    if len(shape) != 2 or not all(type(size) is int and size > 0 for size in shape):
        raise ValueError(f"a matrix of shape {shape}")
    if math.prod(shape) * data.dtype.itemsize > room_for(stored, MOST_TIMES):
        raise ValueError(f"a matrix of shape {shape} in {stored} bytes")
    if not _shapes_fit(data, indices, indptr, shape):
        raise ValueError(f"indices that do not fit a matrix of shape {shape}")
    parts = (data, indices.astype(np.int64), indptr.astype(np.int64))
    return np.asarray(csr_matrix(parts, shape=shape).todense())


def _shapes_fit(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]
) -> bool:
    integers = indices.dtype.kind in "iu" and indptr.dtype.kind in "iu"
    if not integers or data.dtype.kind not in "fiub":
        return False
    if (indices.shape, indptr.shape) != (data.shape, (shape[0] + 1,)) or data.ndim != 1:
        return False
    starts = indptr.astype(np.int64)
    ordered = starts[0] == 0 and starts[-1] == len(data) and bool((np.diff(starts) >= 0).all())
    return ordered and (not len(indices) or 0 <= indices.min() <= indices.max() < shape[1])


def store(data: Any, root: Path) -> Path:
    """`root/HASH` with edges, features, labels, and split and clients where the data have them.

    `train_mask`, `val_mask`, `test_mask` are the split, `client` says who holds a node. The folder
    is named by its content and made once; only its owner can read it.
    """
    x, y, edges = (_take_tensor(data, name) for name in ("x", "y", "edge_index"))
    if y.dim() == 2 and y.shape[1] == 1:
        y = y.flatten()
    arrays = {"x": _to_numbers(x, np.float32), "y": _to_numbers(y, np.int64)}
    arrays["edge_index"] = _to_numbers(edges, np.int64)
    masks = {part: getattr(data, f"{part}_mask", None) for part in PARTS}
    masks = {part: value for part, value in masks.items() if value is not None}
    client = getattr(data, "client", None)
    target = root / _hash_arrays(arrays, masks, client)
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".", dir=root))
    try:
        np.savez_compressed(made / "features.npz", x=arrays["x"])
        np.savez_compressed(made / "labels.npz", y=arrays["y"])
        np.savez_compressed(made / "edges.npz", edge_index=arrays["edge_index"])
        if masks:
            (made / "split.csv").write_text(_split_text(masks, len(arrays["y"])))
        if client is not None:
            _write_clients(made / "clients.csv", client)
        os.replace(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return target


def _take_tensor(data: Any, name: str) -> Tensor:
    value = getattr(data, name, None)
    if not isinstance(value, Tensor):
        raise DataError(
            f"data.{name}: found {type(value).__name__}; wanted a tensor, as in "
            "torch_geometric.data.Data(x=..., edge_index=..., y=...)"
        )
    return value.detach().cpu()


def _to_numbers(value: Tensor, kind: Any) -> NDArray[Any]:
    if value.is_sparse:
        value = value.to_dense()
    if issubclass(kind, np.integer) and value.is_floating_point():
        raise DataError(f"data: found {value.dtype} where classes or nodes are wanted; integers")
    return value.numpy().astype(kind)


def _split_text(masks: dict[str, Any], num_nodes: int) -> str:
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


def _hash_arrays(arrays: dict[str, NDArray[Any]], masks: dict[str, Any], client: Any) -> str:
    digest = hashlib.sha256()
    others = {**masks, **({} if client is None else {"client": client})}
    found = {**arrays, **{name: torch.as_tensor(v).cpu().numpy() for name, v in others.items()}}
    for name, value in found.items():
        digest.update(f"{name}{value.shape}{value.dtype}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]
