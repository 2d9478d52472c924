"""A figure: a drawing with its title, its legend and a sentence that says how to read it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

# All drawings have this width, about that of a phone, so their text keeps its size on any screen.
WIDTH = 380.0


@dataclass(frozen=True)
class LegendEntry:
    """`style` names the CSS class of the sample: `s1` to `s4`, with `dashed` where the line is."""

    name: str
    style: str


@dataclass(frozen=True)
class Figure:
    title: str
    caption: str
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
