"""A figure as a file of its own: title, legend and drawing, in the page's colours on white."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup

from securefg.reports.figures.canvas import Figure, LegendEntry
from securefg.reports.templating import page_environment

TITLE, LINE, MARGIN = 26, 16, 4
SAMPLE, LETTER, GAP = 27, 5.9, 14
_OPENING = re.compile(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"')


def standalone(figure: Figure) -> str:
    """The drawing at its own size; a legend that is too wide goes on below itself."""
    found = _OPENING.match(figure.svg)
    assert found is not None, "canvas() begins with the size"
    width, height = float(found[1]), float(found[2])
    legend = list(_placed(figure.legend, width))
    top = max((y for _, y, _ in legend), default=TITLE - LINE) + LINE / 2
    sized = f'<svg width="{width:g}" height="{height:g}" {figure.svg.removeprefix("<svg ")}'
    return (
        page_environment()
        .get_template("figure.svg")
        .render(
            figure=figure,
            width=f"{width:g}",
            height=f"{top + height + MARGIN:g}",
            top=f"{top:g}",
            legend=legend,
            drawing=Markup(sized),
        )
    )


def _placed(
    entries: tuple[LegendEntry, ...], width: float
) -> Iterator[tuple[float, float, LegendEntry]]:
    x, y = float(MARGIN), float(TITLE + LINE / 2)
    for entry in entries:
        wide = SAMPLE + LETTER * len(entry.name) + GAP
        if x > MARGIN and x + wide > width:
            x, y = float(MARGIN), y + LINE
        yield x, y, entry
        x += wide
