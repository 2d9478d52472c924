"""SVG elements as escaped markup."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from securefg.reports.figures.figure import WIDTH


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """`<tag …>children</tag>`; text and attributes are escaped, `class_` and `text_anchor` become
    `class` and `text-anchor`."""
    written = "".join(f' {_name(key)}="{_value(value)}"' for key, value in attributes.items())
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")


def canvas(
    height: float, label: str, parts: Iterable[Markup], width: float = WIDTH, role: str = "img"
) -> Markup:
    """The drawing as a whole; `label` is what a screen reader says of it.

    role    `group` where single marks can be reached, `img` where the drawing is one picture
    """
    view = f"0 0 {coordinate(width)} {coordinate(height)}"
    return element("svg", *parts, viewBox=view, role=role, aria_label=label)


def coordinate(value: float) -> str:
    """A tenth of a pixel is enough, and short."""
    return f"{value:.1f}".removesuffix(".0")


def title(text: str) -> Markup:
    return element("title", text)


def _name(key: str) -> str:
    return key.rstrip("_") if key in ("class_", "viewBox") else key.replace("_", "-")


def _value(value: str | float) -> Markup:
    return escape(value if isinstance(value, str) else coordinate(value))
