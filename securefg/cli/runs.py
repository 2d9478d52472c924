"""`securefg runs`: what lies in a folder of runs, how large it is, and clearing it up."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from securefg.foundation.errors import InputError
from securefg.foundation.lock import owned

MINUTES_AT_REST = 10


class Clean(StrEnum):
    """What can be removed."""

    checkpoints = "checkpoints"
    unfinished = "unfinished"


@dataclass(frozen=True)
class Entry:
    """A run's folder as it lies there."""

    path: Path
    finished: bool
    audited: bool
    accuracy: str
    size: int
    minutes: float

    @property
    def state(self) -> str:
        """Whether the run is finished and audited, in words."""
        done = "finished" if self.finished else "unfinished"
        return f"{done}, audited" if self.audited else done


def runs(
    root: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs"),
    clean: Annotated[
        Clean | None,
        typer.Option(help="Remove checkpoints of finished runs, or unfinished runs whole."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove; without it, only say what.")] = False,
) -> None:
    """List runs with their sizes, and clear up."""
    from rich.console import Console
    from rich.table import Table

    from securefg.foundation.units import bytes_text

    if not root.is_dir():
        raise InputError(f"{root}: found no such folder; expected a folder of runs")
    run_entries = list_entries(root)
    console = Console()
    table = Table("run", "state", "test accuracy", "size", box=None, pad_edge=False)
    for one in run_entries:
        table.add_row(one.path.name, one.state, one.accuracy, bytes_text(one.size))
    console.print(table)
    console.print(f"{len(run_entries)} runs, {bytes_text(sum(one.size for one in run_entries))}")
    for path in removable_folders(run_entries, clean) if clean is not None else ():
        if yes:
            with owned(path if clean is Clean.unfinished else path.parent):  # refuses a run at work
                shutil.rmtree(path)
        console.print(f"{'removed' if yes else 'would remove'} {path}", soft_wrap=True)
    if clean is not None and not yes:
        console.print("nothing was removed; --yes removes")


def list_entries(root: Path) -> list[Entry]:
    """All run folders of a root, the newest last."""
    folders = [path.parent for path in root.glob("*/config.yaml") if not path.parent.is_symlink()]
    return sorted(map(_make_entry, folders), key=lambda entry: -entry.minutes)


def _make_entry(path: Path) -> Entry:
    from securefg.foundation.errors import RunFolderError
    from securefg.runs.summary import read_summary

    finished, accuracy = (path / "summary.json").is_file(), ""
    if finished:
        try:
            value = read_summary(path / "summary.json").test_accuracy
            accuracy = "none" if value is None else f"{value:.4f}"
        except RunFolderError:
            accuracy = "of another version"
    files = [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    stats = [file.stat() for file in files]
    newest = max((stat.st_mtime for stat in stats), default=0.0)
    return Entry(
        path=path,
        finished=finished,
        audited=(path / "audit" / "findings.json").is_file(),
        accuracy=accuracy,
        size=sum(stat.st_size for stat in stats),
        minutes=(time.time() - newest) / 60,
    )


def removable_folders(run_entries: list[Entry], clean: Clean) -> list[Path]:
    """A folder that was written to lately may be running, and stays. A release after an erasure
    stays too: what it sent before it was interrupted is in its books alone."""
    from securefg.runs.erasure_books import FILE

    if clean is Clean.checkpoints:
        kept = [one.path / "checkpoints" for one in run_entries if one.finished]
        return [path for path in kept if path.is_dir() and not path.is_symlink()]
    unfinished = [one for one in run_entries if not one.finished and one.minutes > MINUTES_AT_REST]
    return [one.path for one in unfinished if not (one.path / FILE).is_file()]
