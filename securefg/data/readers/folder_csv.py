"""The CSV files of a folder that a user brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefg.data.tables import Table, fault, read_table, text_lines, without_header
from securefg.foundation.errors import DataError

PARTS = ("train", "val", "test")


def features(path: Path) -> NDArray[np.float64]:
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


def labels(path: Path, num_nodes: int) -> NDArray[np.int64]:
    """Lines of `node,label`; the labels in the order of the nodes."""
    table = read_table(path, np.int64, columns=2, delimiter=",", header=True)
    table.require(table.values[:, 1] >= 0, 1, "a label from 0")
    _no_gaps(table)
    ordered: NDArray[np.int64] = _by_node(table, num_nodes)[:, 1]
    return ordered.copy()


def edges(path: Path, num_nodes: int) -> NDArray[np.int64]:
    """Lines of `source,target`, as (2, E)."""
    table = read_table(path, np.int64, columns=2, delimiter=",", header=True)
    for column in (0, 1):
        _in_range(table, column, num_nodes)
    return np.ascontiguousarray(table.values.T)


def split(path: Path, num_nodes: int) -> NDArray[np.str_]:
    """Lines of `node,part`; the part of every node, "" for a node that is left out."""
    assigned = np.full(num_nodes, "", dtype="<U5")
    lines = text_lines(path)
    # Only here can a row have no number and still be no header: "seven,train" is a fault.
    has_header = lines[0][1].split(",")[-1].strip() not in PARTS
    for line, text in without_header(path, lines, ",") if has_header else lines:
        node, part = _split_line(path, line, text, num_nodes)
        if assigned[node]:
            raise fault(path, line, f"node {node} a second time", "every node at most once")
        assigned[node] = part
    return assigned


def _split_line(path: Path, line: int, text: str, num_nodes: int) -> tuple[int, str]:
    node, _, part = (field.strip() for field in text.partition(","))
    if part not in PARTS:
        raise fault(path, line, repr(text), "node,train or node,val or node,test")
    if not node.isdecimal() or int(node) >= num_nodes:
        raise fault(path, line, f"node {node!r}", f"a node from 0 to {num_nodes - 1}")
    return int(node), part


def _by_node(table: Table, num_nodes: int) -> NDArray[Any]:
    """The rows in the order of the nodes in the first column, of which each must be there once."""
    _in_range(table, 0, num_nodes)
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


def _in_range(table: Table, column: int, num_nodes: int) -> None:
    values = table.values[:, column]
    table.require((values >= 0) & (values < num_nodes), column, f"a node from 0 to {num_nodes - 1}")


def _no_gaps(table: Table) -> None:
    found = np.unique(table.values[:, 1])
    gaps = np.flatnonzero(found != np.arange(len(found)))
    if gaps.size:
        row = int(np.argmax(table.values[:, 1] == found[gaps[0]]))
        raise table.fault(
            row, f"label {found[gaps[0]]} but never label {gaps[0]}", "labels 0 to C-1 without gaps"
        )
