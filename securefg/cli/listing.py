"""`securefg list`: what a config or a command may name, with one line each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


class Kind(StrEnum):
    """A kind of thing that can be listed."""

    methods = "methods"
    defences = "defences"
    datasets = "datasets"
    partitions = "partitions"
    attacks = "attacks"
    configs = "configs"


def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """List what there is, with one line each."""
    from rich.table import Table

    header, body = list_rows(kind.value)
    if kind is Kind.configs:
        _print_configs(body, Console(markup=False))
        return
    table = Table(*header, box=None, pad_edge=False)
    for line in body:
        table.add_row(*line)
    Console(markup=False).print(table)


def _print_configs(body: list[tuple[str, ...]], console: Console) -> None:
    """Print one row per config; on a terminal, text that does not fit is cut."""
    from securefg.cli.common import show_line
    from securefg.cli.configs import HEADER, NOTE
    from securefg.foundation.quoting import shortened

    body = [HEADER, *body]
    widths = [max(len(line[column]) for line in body) for column in range(3)]
    for name, *rest, about in body:
        if not any(rest):
            show_line(name, console)
            continue
        cells = [cell.ljust(width) for cell, width in zip((name, *rest), widths, strict=True)]
        line = "  ".join(("", *cells, about))
        show_line(shortened(line, console.width) if console.is_terminal else line, console)
    show_line(NOTE, console)


def list_rows(kind: str) -> Rows:
    """Header and lines for one kind of things."""
    return {
        "methods": _method_rows,
        "defences": _defence_rows,
        "datasets": _dataset_rows,
        "partitions": _partition_rows,
        "attacks": _attack_table,
        "configs": _config_rows,
    }[kind]()


def _method_rows() -> Rows:
    from securefg.methods.registry import get_method
    from securefg.settings.methods import method_names

    lines: list[tuple[str, ...]] = []
    for name in method_names():
        try:
            lines.append((name, get_method(name).summary))
        except Exception as error:  # of somebody else's package: the others are listed
            lines.append((name, f"cannot be loaded: {error}"))
    return ("method", ""), lines


def _defence_rows() -> Rows:
    from securefg.privacy.defence import find_defence
    from securefg.settings.privacy import defence_names

    lines: list[tuple[str, ...]] = []
    for name in defence_names():
        try:
            found = find_defence(name)
            lines.append((name, "masks" if found.needs_masks else "", found.about))
        except Exception as error:  # of somebody else's package: the others are listed
            lines.append((name, "", f"cannot be loaded: {error}"))
    return ("defence", "needs", ""), lines


def _dataset_rows() -> Rows:
    from securefg.settings.datasets import dataset_info, dataset_names

    header = ("dataset", "nodes", "edges", "features", "classes", "")
    lines = []
    for name in dataset_names():
        info = dataset_info(name)
        sizes = (info.num_nodes, info.num_edges, info.num_features, info.num_classes)
        figures = ("-" if size is None else str(size) for size in sizes)
        lines.append((name, *figures, info.description))
    return header, lines


def _partition_rows() -> Rows:
    from securefg.settings.partition import partition_names, partition_settings

    lines = [(name, partition_settings(name).summary) for name in partition_names()]
    return ("partition", ""), list(lines)


def _config_rows() -> Rows:
    from securefg.cli.configs import HEADER, list_configs

    return HEADER, list_configs()


def _attack_table() -> Rows:
    return ("attack", "needs", "by", ""), list(_attack_rows())


def _attack_rows() -> Iterator[tuple[str, ...]]:
    """Per attack: what must cross or be answered for it, and who can mount it."""
    from attacks import attack_names, get_active, get_attack, load_active_attacks
    from attacks.base import in_words

    for name in attack_names():
        try:
            attack = get_attack(name)
        except Exception as error:  # of somebody else's package: the others are listed
            yield name, "", "", f"cannot be loaded: {error}"
            continue
        needs = "; ".join(in_words(need) for need in attack.needs)
        yield name, needs, ", ".join(sorted(attack.adversaries)), attack.summary
    for name in load_active_attacks():
        lying = get_active(name)
        needs = "; ".join(in_words(need) for need in (*lying.needs, *lying.hears))
        yield name, needs, "a server that lies (rehearse)", lying.summary
