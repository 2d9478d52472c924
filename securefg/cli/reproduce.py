"""`securefg reproduce`: a paper's table or figure, ours beside theirs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from securefg.cli.common import Overrides, end_sweep, show_line
from securefg.foundation.errors import InputError

if TYPE_CHECKING:
    from papers.entry import Entry
    from papers.table import Reproduction


def reproduce(
    entry: Annotated[
        str, typer.Argument(metavar="ENTRY", help="An entry, `all`, `list`, or `pages`.")
    ],
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds per run.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs in parallel.")] = 2,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run only a few rounds of the first row.")
    ] = False,
    rows: Annotated[
        str, typer.Option(metavar="A,B", help="Only rows whose name starts with one of these.")
    ] = "",
    columns: Annotated[
        str, typer.Option(metavar="A,B", help="Only columns whose name starts with one of these.")
    ] = "",
    stored: Annotated[
        bool, typer.Option("--stored", help="Run nothing; make tables of the stored runs.")
    ] = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Run what papers/results lacks, and store it there.")
    ] = False,
    engine: Annotated[
        bool, typer.Option("--engine", help="With --collect: every run by itself, no batches.")
    ] = False,
    overrides: Overrides = None,
    root: Annotated[Path, typer.Option(help="Folder for runs.")] = Path("runs/reproduce"),
    out: Annotated[
        Path | None, typer.Option(help="Where tables go.", show_default="ROOT/tables")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the entry's section of this file.")
    ] = None,
) -> None:
    """A paper's table or figure: run what is missing, ours beside theirs."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "papers" / "catalogue.py").is_file():
        raise InputError("reproduce: the papers' tables come with a checkout of the repository")
    if sys.path[:1] != [str(checkout)]:
        sys.path.insert(0, str(checkout))  # before anybody else's `papers`
    from papers.catalogue import ENTRIES, get_entries
    from papers.command import Asked
    from papers.command import reproduce as carry_out
    from papers.pages import PAGE, write_pages
    from papers.plan import Options

    console = Console(markup=False)
    if entry == "list":
        _print_entries(ENTRIES, console)
        return
    if entry == "pages":
        write_pages(docs or PAGE)
        return
    chosen = [tuple(name.strip() for name in x.split(",") if name.strip()) for x in (rows, columns)]
    options = Options(root, seeds, quick, chosen[0], chosen[1], tuple(overrides or ()))
    if collect:
        from papers.command import collect_entries

        end_sweep(collect_entries(get_entries(entry), options, engine, console), False)
        return
    asked = Asked(get_entries(entry), options, jobs, out or root / "tables", docs, stored)
    sweep_outcome = carry_out(asked, console)
    for result, path in sweep_outcome.pages:
        _print_figures(result, console)
        console.print(f"{result.entry.name}: {result.tally or 'nothing to judge'}")
        show_line(f"  {path}", console)
    end_sweep(sweep_outcome.failed, sweep_outcome.interrupted)


def _print_entries(entries: Sequence[Entry], console: Console) -> None:
    """Print all entries, and how many of their published cells the store has."""
    from papers.pages import count_cells

    columns = ("entry", "what", "cells", "seeds", "published", "run", "3 seeds", "off by > 5")
    table = Table(*columns, box=None, pad_edge=False)
    for entry in entries:
        known = count_cells((entry,))
        counts = (known.published, known.run, known.with_seeds, known.far)
        cells = (len(entry.cells), entry.seeds, *counts)
        table.add_row(entry.name, entry.title, *map(str, cells))
    console.print(table)
    console.print(count_cells(entries).text)


def _print_figures(result: Reproduction, console: Console) -> None:
    """Print our figures beside the paper's, and how they are to be read."""
    table = Table("row", *result.columns, box=None, pad_edge=False)
    for row in result.entry.rows:
        lines = [result.line(row, column) for column in result.columns]
        table.add_row(row, *("" if line is None else line.text for line in lines))
    console.print(table)
    few = " Few rounds of the first row: not the paper's setting." if result.quick else ""
    console.print(result.key + few)
