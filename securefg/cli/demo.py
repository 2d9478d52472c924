"""`securefg demo`: a small run and its audit, from the config that comes with the package."""

from __future__ import annotations

from pathlib import Path

import typer

from securefg.cli.audit import audit
from securefg.cli.common import show_line
from securefg.cli.run import run

CONFIG = Path("quickstart")
NEXT = (
    "Next",
    "  securefg curve curve_green     a private model that may be used; a few minutes",
    "  securefg curve curve_red       the same network without protection",
    "  securefg init project          a commented config of your own",
)


def demo() -> None:
    """Train on a synthetic graph, attack the run, and show who learns what: about a minute."""
    from securefg.settings.config import load_config

    config = load_config(CONFIG)
    show_line("1 of 2: train six clients on a synthetic graph (no download)")
    run(CONFIG, fresh=True)
    show_line("2 of 2: attack what was recorded")
    ended = _audit_run(config.output.root / f"{config.name}-s{config.seed}-{config.hash}")
    for line in NEXT:
        show_line(line)
    if ended is not None:
        raise ended


def _audit_run(folder: Path) -> typer.Exit | None:
    """Audit a run. Return how it ended where that was not well."""
    try:
        audit(folder)
    except typer.Exit as ended:
        return ended
    return None
