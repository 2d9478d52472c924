"""`securefg plan`: what a private run would cost, before anything private is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefg.cli.common import Overrides
from securefg.cli.sizes import Classes, Clients, Features, Holders, Links, Nodes, Train
from securefg.foundation.collection import import_uncollected


def plan(
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
    """Expected noise against signal, from sizes alone: given here, published, or of your folder."""
    import_uncollected("torch")
    from rich.console import Console
    from rich.table import Table

    from securefg.runs.planning import WORTH, plan
    from securefg.runs.recommended import recommend_settings
    from securefg.runs.sizes import Sizes, with_sizes
    from securefg.settings.config import load_config

    given = Sizes(nodes, features, classes, train, clients, holders, links)
    sized = with_sizes(load_config(config, overrides or []), given)
    parsed = sized.config
    run_plan = plan(parsed, sized.info, sized.training)
    table = Table(
        title=f"{run_plan.num_training:,} of {run_plan.num_nodes:,} nodes train, "
        f"{run_plan.num_clients:,} clients"
    )
    for column in ("release", "numbers", "noise on each", "signal over noise"):
        table.add_column(column)
    for release in run_plan.releases:
        without = "noise in training" if release.trained else "no noise"
        ratio = without if release.ratio is None else f"{release.ratio:.1f}"
        table.add_row(release.name, f"{release.dim:,}", f"{release.noise:.4g}", ratio)
    console = Console()
    console.print(table)
    for setting, words in parsed.method.chosen.items():
        console.print(f"By the rule, {setting} is {words}.")
    if not run_plan.releases:
        console.print("This run sends nothing private.")
    elif not run_plan.has_noise:
        console.print("No upload gets noise before it is sent, so this plan has nothing to weigh.")
    elif run_plan.worth_it:
        baseline = parsed.method.baseline
        told_by = f" (method.name={baseline} tells)" if baseline else ""
        where = (
            f"Each client has about {run_plan.training_per_client:,} training nodes of its own: "
            "where these are many, training"
            if run_plan.training_per_client
            else "Training"
        )
        console.print(
            f"Worth it, as far as noise goes: every sum stands {WORTH:g} times above its noise, or "
            f"more. {where} alone may do as well{told_by}."
        )
    else:
        *others, last = parsed.method.remedies
        helps = f"{', '.join(others)} or {last} help.".capitalize()
        console.print(
            f"Not worth it: a sum stands less than {WORTH:g} times above its noise. {helps}"
        )
    advice = recommend_settings(parsed, sized.info, sized.training)
    if advice is not None and advice.method is None:
        console.print(f"Recommended by sizes alone: nothing to gain here, {advice.why}.")
    elif advice is not None:
        console.print(f"Recommended by sizes alone: {advice.method}. In it {advice.why}.")
