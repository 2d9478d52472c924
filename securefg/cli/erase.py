"""`securefg erase`: release a model again without a person or a silo, and book what both cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefg.cli.common import show_line
from securefg.foundation.units import delta_text, epsilon_text

KNOWN = (
    "Recipients of the earlier releases keep them. They still know what those tell of the erased, "
    "and nothing here takes it back.",
    "A column of somebody else that was computed from an erased person's links stays until the "
    "tables are prepared again.",
)


def erase(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run's folder.")],
    nodes: Annotated[
        str, typer.Option(metavar="7,12", help="Nodes that nobody holds any more.")
    ] = "",
    clients: Annotated[
        str, typer.Option(metavar="3", help="Clients of this run that take no part any more.")
    ] = "",
    show_difference: Annotated[
        bool,
        typer.Option(
            "--show-difference",
            help="Release again although no noise hides the difference, the data of the erased.",
        ),
    ] = False,
) -> None:
    """Release again without nodes or clients, in a full new session; book all releases."""
    from securefg.runs.erasure import release_without
    from securefg.runs.folder import RunFolder

    chosen, left_out = _parse_numbers("--nodes", nodes), _parse_numbers("--clients", clients)
    erased_run = release_without(
        RunFolder.open(run), chosen, left_out, show_difference=show_difference
    )
    books = erased_run.erasure
    show_line(
        f"Released again without {books.num_nodes} nodes and {books.num_clients} clients: "
        f"{erased_run.folder.path}"
    )
    for unit, cost in books.epsilon.items():
        if cost.together == 0:
            continue
        show_line(
            f"epsilon per {unit} at delta {delta_text(books.delta)}: {epsilon_text(cost.now)} for "
            f"this release. Whoever is in all {len(books.after) + 1} releases has "
            f"{epsilon_text(cost.together)}, the erased keep {epsilon_text(cost.erased)}"
        )
    for sentence in KNOWN:
        show_line(sentence)


def _parse_numbers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"found {text!r}; expected numbers with commas", param_hint=option)
    return [int(part) for part in parts]
