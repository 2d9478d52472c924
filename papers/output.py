"""What a reproduction leaves behind: Markdown, CSV, a page, and its section in the docs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from papers.table import Reproduction, as_csv, as_markdown
from securefg.foundation.errors import InputError
from securefg.foundation.files import write_atomically
from securefg.foundation.versions import list_versions
from securefg.reports.figures.canvas import Figure, standalone_svg
from securefg.reports.templating import render_page

DOCS_OPENING = """# Reproduction

Every table and figure of the four papers, ours beside theirs. The command below a section
writes the section with `--docs docs/research/reproduction.md`. Do not edit the sections by hand.
"""


def write_outputs(result: Reproduction, figures: Sequence[Figure], folder: Path) -> Path:
    """`table.md`, `table.csv` and `index.html`; returns the path of the page."""
    write_atomically(folder / "table.md", as_markdown(result))
    write_atomically(folder / "table.csv", as_csv(result))
    write_atomically(folder / "index.html", page(result, figures))
    return folder / "index.html"


def page(result: Reproduction, figures: Sequence[Figure]) -> str:
    """One file that opens from disk and asks the network for nothing."""
    version = list_versions()["securefg"]
    return render_page("reproduction.html", result=result, figures=figures, version=version)


def write_section(path: Path, result: Reproduction, figures: Sequence[Figure] = ()) -> None:
    """Replace the entry's section between its markers, or add it at the end; figures go to
    `images/reproduction` beside it."""
    text = path.read_text() if path.exists() else DOCS_OPENING
    begin, end = (f"<!-- {word} {result.entry.name} -->" for word in ("begin", "end"))
    if text.count(begin) != text.count(end) or text.count(begin) > 1:
        raise InputError(f"{path}: the markers of {result.entry.name} are not one pair")
    shown = _write_figures(path.parent, result.entry.name, figures)
    section = f"{begin}\n{as_markdown(result, level=2)}{shown}{end}"
    if begin in text:
        before, _, rest = text.partition(begin)
        text = f"{before}{section}{rest.partition(end)[2]}"
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    write_atomically(path, text)


def _write_figures(docs: Path, name: str, figures: Sequence[Figure]) -> str:
    folder = docs / "images" / "reproduction"
    for old in folder.glob(f"{name}-[0-9]*.svg"):
        old.unlink()
    links = []
    for number, figure in enumerate(figures, 1):
        path = folder / f"{name}-{number}.svg"
        write_atomically(path, standalone_svg(figure))
        links.append(f"![{figure.title}: {figure.caption}]({path.relative_to(docs)})")
    return "\n" + "\n".join(links) + "\n" if links else ""


def section_of(text: str, name: str) -> str | None:
    """Return what stands between an entry's markers, or None without markers."""
    begin, end = (f"<!-- {word} {name} -->" for word in ("begin", "end"))
    if begin not in text:
        return None
    return text.partition(f"{begin}\n")[2].partition(end)[0]


def write_text(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    write_atomically(path, text)
