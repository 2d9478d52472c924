"""`securefg config`: look at configurations."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from securefg.cli.common import Overrides

app = typer.Typer(help="Look at configurations.", no_args_is_help=True)


@app.command("schema")
def schema() -> None:
    """JSON Schema of a run's config, for editors."""
    from securefg.settings.config import config_schema

    sys.stdout.write(json.dumps(config_schema(), indent=2) + "\n")


@app.command("show")
def show(config: Annotated[Path, typer.Argument()], overrides: Overrides = None) -> None:
    """A config with all its defaults filled in, and its hash."""
    import yaml

    from securefg.settings.config import load_config

    parsed = load_config(config, overrides or [])
    sys.stdout.write(f"# hash {parsed.hash}\n")
    sys.stdout.write(yaml.safe_dump(parsed.model_dump(mode="json"), sort_keys=False))
