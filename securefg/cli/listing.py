"""What `securefg list` shows."""

from __future__ import annotations

import importlib

from securefg.data.partitions.registry import PARTITIONS
from securefg.methods.registry import get_method
from securefg.settings.datasets import DATASETS
from securefg.settings.methods.registry import method_names

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
    """Per attack: the methods it is aimed at and who can mount it."""
    package = importlib.import_module("attacks")
    lines: list[tuple[str, ...]] = []
    for attack in map(package.get_attack, package.attack_names()):
        methods, whose = ", ".join(sorted(attack.methods)), ", ".join(sorted(attack.adversaries))
        lines.append((attack.name, methods, whose, attack.summary))
    return ("attack", "on", "by", ""), lines
