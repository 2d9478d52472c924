"""`securefg data`: look at tables, make them into numbers, and name shared customers alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at tables of your own and prepare them.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="Tables, or one folder of them per organisation.")]
Settings = Annotated[
    Path | None,
    typer.Option("--settings", metavar="FILE", help="Instead of the folder's tables.yaml."),
]
Agreed = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="Encode by this schema.json; learn nothing."),
]


@app.command("check")
def check(
    folder: Folder,
    settings: Settings = None,
    schema: Agreed = None,
    draft: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a tables.yaml that decides the faults."),
    ] = None,
) -> None:
    """Say what was found and what would be done; every fault with its line, all of them at once."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from securefg.cli.common import print_complaint
    from securefg.data.tabular.drafting import check_tables, settings_text, write_settings
    from securefg.data.tabular.prepare import describe_prepared
    from securefg.data.tabular.schema import read_schema
    from securefg.settings.tables import table_settings

    agreed = None if schema is None else read_schema(schema)
    given = table_settings(folder, settings)
    checked = check_tables(folder, given, agreed)
    if checked.made is not None:
        table = Table("", "found", "what is done", box=None, pad_edge=False)
        for row in describe_prepared(checked.made):
            table.add_row(*map(escape, row))
        Console().print(table)
    for line in checked.lines[:MOST_FAULTS]:
        print_complaint(line)
    if len(checked.lines) > MOST_FAULTS:
        print_complaint(f"{len(checked.lines)} lines of faults in all")
    if draft is not None:
        write_settings(checked.settings, draft)
        typer.echo(f"wrote {draft}: read it, then `securefg data prepare {folder} OUT`", err=True)
    if checked.lines and checked.settings != given:
        typer.echo(DRAFTED)
        typer.echo(settings_text(checked.settings), nl=False)
    if checked.lines and checked.left:
        several = "1 fault is" if checked.left == 1 else f"{checked.left} faults are"
        print_complaint(f"{several} yours to decide: no setting does")
    if checked.lines:
        raise typer.Exit(2)


MOST_FAULTS = 100
DRAFTED = "\nA tables.yaml that decides them (read every line; the table above is made with it):\n"


@app.command("prepare")
def prepare(
    folder: Folder,
    out: Annotated[Path, typer.Argument(help="The new folder of numbers.")],
    settings: Settings = None,
    schema: Agreed = None,
) -> None:
    """Make tables into a folder for `data: {name: folder}`, with a mapping that leads back."""
    from securefg.data.tabular.gather import client_names
    from securefg.data.tabular.prepare import prepared, write_prepared
    from securefg.data.tabular.schema import read_schema
    from securefg.settings.tables import table_settings

    agreed = None if schema is None else read_schema(schema)
    made = prepared(folder, table_settings(folder, settings), agreed)
    write_prepared(made, out)
    clients = len(client_names(made.gathered))
    held = f", {clients} clients" if clients else ""
    typer.echo(
        f"wrote {out}: {len(made.labels)} nodes, {len(made.edges)} edges, "
        f"{made.features.shape[1]} features, {len(made.schema.classes)} classes{held}"
    )


@app.command("new-key")
def make_key(file: Annotated[Path, typer.Argument(help="The new key's file.")]) -> None:
    """A key for pseudonyms: for the organisations, never for the server."""
    from securefg.data.tabular.pseudonyms import new_key

    new_key(file)
    typer.echo(f"wrote {file}; give it to the other organisations, and not to the server")


@app.command("pseudonymise")
def pseudonymise(
    folder: Folder,
    out: Annotated[Path, typer.Argument(help="The new folder of tables.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Of `securefg data new-key`.")],
    settings: Settings = None,
) -> None:
    """Copy tables with every node's id replaced by a keyed pseudonym; say what that tells."""
    from securefg.data.tabular.pseudonyms import TELLS, read_key, write_pseudonymised
    from securefg.settings.tables import table_settings

    count = write_pseudonymised(folder, out, read_key(key), table_settings(folder, settings))
    typer.echo(f"wrote {out}: {count} ids are pseudonyms. Whoever gets these tables learns:")
    for line in TELLS:
        typer.echo(f"  {line}")
