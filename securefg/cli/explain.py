"""`securefg explain`: what a run's epsilons will be about, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefg.cli.common import Overrides


def explain(
    config: Annotated[Path, typer.Argument(help="A run's YAML config.")],
    overrides: Overrides = None,
) -> None:
    """Every epsilon with its unit, relation, holders and delta; the data is dealt out, not used."""
    from rich.console import Console
    from rich.table import Table

    from securefg.cli.summary import add_epsilons
    from securefg.runs.assembly import prepare
    from securefg.runs.epsilons import planned_epsilons
    from securefg.settings.config import load_config

    found = planned_epsilons(prepare(load_config(config, overrides or [])))
    table = Table(box=None, show_header=False, pad_edge=False)
    add_epsilons(table, found, ".4g")
    Console().print(table)
