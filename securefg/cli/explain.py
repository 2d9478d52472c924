"""`securefg explain`: what a run's epsilons will be about, before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefg.cli.common import Overrides
from securefg.cli.sizes import Classes, Clients, Features, Holders, Links, Nodes, Train


def explain(
    config: Annotated[Path, typer.Argument(help="A run's YAML config.")],
    overrides: Overrides = None,
    nodes: Nodes = None,
    features: Features = None,
    classes: Classes = None,
    train: Train = None,
    clients: Clients = None,
    holders: Holders = None,
    links: Links = None,
) -> None:
    """Every epsilon with its unit, relation, holders and delta; the data is dealt out, not used.

    With sizes given by hand no data is touched.
    """
    from rich.console import Console
    from rich.table import Table

    from securefg.cli.summary import add_epsilons
    from securefg.runs.assembly import prepare
    from securefg.runs.epsilons import planned_epsilons
    from securefg.runs.sizes import Sizes, setup_of, with_sizes
    from securefg.settings.config import load_config

    given = Sizes(nodes, features, classes, train, clients, holders, links)
    parsed = load_config(config, overrides or [])
    by_hand = given != Sizes()
    setup = setup_of(with_sizes(parsed, given)) if by_hand else prepare(parsed)
    found = planned_epsilons(setup)
    table = Table(box=None, show_header=False, pad_edge=False)
    add_epsilons(table, found, ".4g")
    Console().print(table)
