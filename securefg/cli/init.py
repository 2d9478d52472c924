"""`securefg init`: a config with comments, to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefg.foundation.errors import InputError
from securefg.foundation.suggestions import explain_unknown_name


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put config.yaml.")],
    config: Annotated[
        str, typer.Option("--config", metavar="NAME", help="The shipped config to copy.")
    ] = "starter",
) -> None:
    """Copy a shipped config into a folder, to be changed there."""
    from securefg.settings.shipped import config_names, configs_folder

    if config not in config_names():
        names = config_names()
        raise InputError(
            explain_unknown_name("--config", config, names, where="securefg list configs")
        )
    target = folder / "config.yaml"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: found a file; expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write((configs_folder() / f"{config}.yaml").read_text(encoding="utf-8"))
    except FileExistsError:
        raise InputError(f"{target}: found a file; expected none, since none is replaced") from None
    typer.echo(f"wrote {target}; run it with: securefg run {target}")
