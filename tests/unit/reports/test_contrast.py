"""Colours of the pages keep WCAG's AA contrast: 4.5 for text, 3 for what is drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEMPLATES = Path("securefg/reports/templates")

TEXT = [
    *(
        (ink, back)
        for ink in ("ink", "muted", "link", "bad", "good", "red")
        for back in ("page", "surface")
    ),
    *((ink, "bad-back") for ink in ("ink", "bad", "red")),
    *((ink, "mark") for ink in ("ink", "muted", "link", "bad", "red")),
    ("surface", "ink"),
    ("surface", "bad"),
    ("surface", "red"),
]
DRAWN = [(f"s{number}", "surface") for number in range(1, 8)]


def colours(scheme: str) -> dict[str, str]:
    """Custom properties of the light scheme, overridden by the dark one where that is asked for."""
    light = (TEMPLATES / "colours.css").read_text()
    dark = (TEMPLATES / "dark.css").read_text() if scheme == "dark" else ""
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light + dark))


def luminance(colour: str) -> float:
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "floor"), [(TEXT, 4.5), (DRAWN, 3.0)], ids=["text", "drawn"])
def test_colours_keep_their_contrast(
    scheme: str, pairs: list[tuple[str, str]], floor: float
) -> None:
    known = colours(scheme)
    found = {f"{a} on {b}": round(contrast(known[a], known[b]), 2) for a, b in pairs}
    assert {pair: ratio for pair, ratio in found.items() if ratio < floor} == {}


def test_the_measure_is_wcags() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_dark_overrides_every_colour_that_light_sets() -> None:
    assert set(colours("light")) == set(
        re.findall(r"--([\w-]+): #", (TEMPLATES / "dark.css").read_text())
    )
