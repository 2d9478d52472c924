"""What `securefg list` shows."""

from __future__ import annotations

import importlib
import pkgutil

from securefg.data.catalogue import DATASETS
from securefg.data.partitions.registry import PARTITIONS
from securefg.methods import get_method, method_names

Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def rows(kind: str) -> Rows:
    """Header and lines for one of methods, datasets, partitions, attacks."""
    return {
        "methods": _methods,
        "datasets": _datasets,
        "partitions": _partitions,
        "attacks": _attacks,
    }[kind]()


def _methods() -> Rows:
    return ("method", ""), [(name, get_method(name).summary) for name in method_names()]


def _datasets() -> Rows:
    header = ("dataset", "nodes", "edges", "features", "classes", "")
    lines = []
    for info in DATASETS.values():
        sizes = (info.num_nodes, info.num_edges, info.num_features, info.num_classes)
        figures = ("-" if size is None else str(size) for size in sizes)
        lines.append((info.name, *figures, info.description))
    return header, lines


def _partitions() -> Rows:
    return ("partition", ""), list(PARTITIONS.items())


def _attacks() -> Rows:
    """One file an attack; `base` is their common ground."""
    path = importlib.import_module("attacks").__path__
    names = sorted(m.name for m in pkgutil.iter_modules(path) if m.name != "base")
    modules = [importlib.import_module(f"attacks.{name}") for name in names]
    docs = [(m.__doc__ or "").strip().partition("\n")[0] for m in modules]
    return ("attack", ""), list(zip(names, docs, strict=True))
