"""A figure: a drawing with its title, its legend and a sentence that says how to read it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

# All drawings have this width, about that of a phone, so their text keeps its size on any screen.
WIDTH = 380.0


@dataclass(frozen=True)
class LegendEntry:
    """`style` names the CSS class of the sample: `s1` to `s7`, with `dashed` where the line is;
    `sample` is drawn instead where it is given."""

    name: str
    style: str = ""
    sample: Markup | None = None


@dataclass(frozen=True)
class Cell:
    """`raw` is what a download holds; `links` are (text, address) that follow the text."""

    text: str
    raw: str = ""
    links: tuple[tuple[str, str], ...] = ()
    number: bool = True

    @property
    def value(self) -> str:
        return self.raw or self.text


@dataclass(frozen=True)
class Table:
    """The numbers of a drawing, for screen readers and downloads."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A drawing with what belongs to it.

    over    what it is about, over its title, where there are several of a kind
    broad   the same drawing for wide screens
    table   its numbers; `csv` holds them instead where they are many
    file    the name under which it is downloaded
    """

    title: str
    caption: str
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
    over: str = ""
    broad: Markup | None = None
    table: Table | None = None
    csv: str = ""
    file: str = ""
