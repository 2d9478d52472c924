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

    from securefg.run.assembly import prepare
    from securefg.run.epsilons import planned_epsilons
    from securefg.settings.config import load_config

    found = planned_epsilons(prepare(load_config(config, overrides or [])))
    table = Table(box=None, show_header=False, pad_edge=False)
    for unit, claim in found.items():
        table.add_row(f"epsilon per {unit}", claim.bound(unit))
        for one in claim.by_links:
            at = "infinite" if one.epsilon is None else f"{one.epsilon:.4g}"
            table.add_row("", f"{at} with at most {one.links} links ({one.whose})")
    for what in dict.fromkeys(what for claim in found.values() for what in claim.not_covered):
        table.add_row("not covered", what)
    Console().print(table)
