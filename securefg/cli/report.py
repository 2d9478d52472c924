"""`securefg report` and `securefg compare`: pages of finished runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from securefg.cli.common import Quietly, Trusting, show_line
from securefg.foundation.collection import import_uncollected
from securefg.foundation.errors import InputError
from securefg.foundation.extensions import only_known_modules
from securefg.foundation.quoting import printable


class Format(StrEnum):
    """The forms that a report can have."""

    html = "html"
    md = "md"
    json = "json"
    csv = "csv"


class Reader(StrEnum):
    """The readers that a page is made for."""

    dpo = "dpo"


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    form: Annotated[
        Format, typer.Option("--format", case_sensitive=False, help="What to write.")
    ] = Format.html,
    reader: Annotated[
        Reader | None,
        typer.Option(
            "--for",
            case_sensitive=False,
            help="A printable page for an impact assessment (GDPR Art. 35).",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Key to sign the page with, instead of the run's own."),
    ] = None,
    trust_modules: Trusting = False,
    quiet: Quietly = False,
) -> None:
    """Rebuild the page of a finished run, or write its results in another form."""
    import_uncollected("torch")
    from securefg.reports.dpo import build_dpo_page
    from securefg.reports.exports import export_report
    from securefg.runs.folder import RunFolder
    from securefg.runs.seal import require_signer, sign_page

    folder = RunFolder.open(run)
    folder.summary()
    if reader is not None and form is not Format.html:
        raise InputError(f"--format: found {form.value} with --for {reader.value}; expected html")
    if form is Format.html:
        require_signer(folder, key)
    with only_known_modules(unless=trust_modules):
        written = export_report(folder, form.value) if reader is None else build_dpo_page(folder)
    if written.suffix == ".html":
        sign_page(folder, written, key)
    if not quiet:
        show_line(str(written))


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page.", show_default="beside the first run"),
    ] = None,
    trust_modules: Trusting = False,
    quiet: Quietly = False,
) -> None:
    """Runs side by side: a table here, and a page."""
    from securefg.reports.compare import compare_runs as side_by_side
    from securefg.reports.compare import write_comparison

    with only_known_modules(unless=trust_modules):
        comparison = side_by_side(runs)
    console = Console(markup=False)
    names = [printable(name, keep="") for name in comparison.names]
    table = Table("", *names, box=None, pad_edge=False)
    for lines in (comparison.results, comparison.findings, comparison.settings):
        for line in lines:
            table.add_row(
                *map(printable, (line.name, *line.values)), style="bold" if line.differs else None
            )
        table.add_section()
    page = write_comparison(comparison, out or runs[0].resolve().parent / "compare.html")
    if not quiet:
        console.print(table)
        show_line(f"page  {page}", console)
