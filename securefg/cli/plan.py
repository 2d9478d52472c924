"""`securefg plan`: what a private run would cost, before anything private is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefg.cli.common import Overrides


def plan(
    config: Annotated[Path, typer.Argument(help="A run's YAML config.")],
    overrides: Overrides = None,
) -> None:
    """Expected noise against signal, from public sizes alone; no data is read."""
    from rich.console import Console
    from rich.table import Table

    from securefg.runs.choosing import settled
    from securefg.runs.planning import WORTH, plan, published
    from securefg.settings.config import load_config

    given = load_config(config, overrides or [])
    info = published(given)
    parsed = settled(given, info)
    found = plan(parsed, info)
    table = Table(
        title=f"{found.num_training:,} of {found.num_nodes:,} nodes train, "
        f"{found.num_clients:,} clients"
    )
    for column in ("release", "numbers", "noise on each", "signal over noise"):
        table.add_column(column)
    for release in found.releases:
        without = "noise in training" if release.trained else "no noise"
        ratio = without if release.ratio is None else f"{release.ratio:.1f}"
        table.add_row(release.name, f"{release.dim:,}", f"{release.noise:.4g}", ratio)
    console = Console()
    console.print(table)
    for setting, words in parsed.method.chosen.items():
        console.print(f"By the rule, {setting} is {words}.")
    if not found.releases:
        console.print("This run sends nothing private.")
    elif not found.has_noise:
        console.print("No upload gets noise before it is sent, so this plan has nothing to weigh.")
    elif found.worth_it:
        baseline = parsed.method.baseline
        told_by = f" (method.name={baseline} tells)" if baseline else ""
        console.print(
            f"Worth it, as far as noise goes: every sum stands {WORTH:g} times above its noise, or "
            f"more. Each client has about {found.training_per_client:,} training nodes of its own: "
            f"where these are many, training alone may do as well{told_by}."
        )
    else:
        *others, last = parsed.method.remedies
        helps = f"{', '.join(others)} or {last} help.".capitalize()
        console.print(
            f"Not worth it: a sum stands less than {WORTH:g} times above its noise. {helps}"
        )
