"""The books of releases that follow each other, and what they demand of a new run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import Field, NonNegativeFloat, ValidationError

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import PRIVATE, write_json
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings
from securefg.settings.privacy import Unit

FILE: Final = "erasure.json"


class Together(Settings):
    """Epsilons of a unit. None is infinite.

    now       of the new release
    together  of all releases, for everybody who is in all of them
    erased    of the earlier releases, which is what the erased are left with
    """

    now: NonNegativeFloat | None
    together: NonNegativeFloat | None
    erased: NonNegativeFloat | None


class Erasure(Settings):
    """A re-release: which runs it follows, how much was taken out, and what all of them cost.

    after    folders of the earlier runs, the first one first
    epsilon  empty until the run has finished
    """

    after: tuple[str, ...]
    num_nodes: int
    num_clients: int
    delta: float
    epsilon: dict[Unit, Together] = Field(default_factory=dict)


def write_books(path: Path, erasure: Erasure) -> None:
    """Write the books into the folder of a re-release."""
    write_json(path / FILE, erasure.model_dump(mode="json"), mode=PRIVATE)


def read_erasure(path: Path) -> Erasure | None:
    """Return the books of a run's folder if it is a re-release, else None."""
    if not (path / FILE).is_file():
        return None
    try:
        return Erasure.model_validate_json(read_bounded(path / FILE))
    except ValidationError as error:
        raise RunFolderError(f"{path / FILE}: found no books of a re-release: {error}") from error


def later_releases(path: Path) -> Iterator[Path]:
    """Yield the folders beside a run's folder whose books hold that run."""
    for books_file in sorted(path.parent.glob(f"*/{FILE}")):
        books = read_erasure(books_file.parent)
        names = [] if books is None else [Path(one).name for one in books.after]
        if path.resolve().name in names:
            yield books_file.parent


def require_unbooked(path: Path) -> None:
    """Raise if a run's folder is in any books, or holds books: a run that replaces it would be
    counted in place of a release that was sent."""
    holding = [path] if (path / FILE).is_file() else []
    for found_books in (*holding, *later_releases(path)):
        raise RunFolderError(
            f"{path}: found the release in {found_books / FILE}; expected one that no books "
            "hold. The books would miss a release that was sent: set another output.root"
        )
