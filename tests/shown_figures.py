"""Figures of a printed audit, to compare a page's example with what the command prints today."""

from __future__ import annotations

import re
from pathlib import Path

ROW = re.compile(r"^(.{33}) +(\S.*)$")
NOTE = re.compile(r"^\[(\d+)\] +(.*?) +guessing (\S+) -> (\S+)$")
NUMBER = re.compile(r"(?<![\[\d])(?:\d*\.\d+|\d+)")
COUNTS_APART, SHARES_APART = 3, 0.02  # processors round differently, and thresholds follow


def screen_figures(text: str) -> dict[str, str]:
    """Return the verdict, every row of the table and every note of an audit's screen, by name."""
    figures: dict[str, str] = {}
    inside = False
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("What can be learnt"):
            inside = True
        elif line.startswith("ALL >= "):
            inside = False
        elif inside and (row := ROW.match(line)):
            figures[row.group(1).strip()] = " ".join(row.group(2).split())
        elif note := NOTE.match(line):
            figures[f"[{note.group(1)}]"] = f"{note.group(2)}: {note.group(3)} -> {note.group(4)}"
    return figures


def documented_screen(page: Path) -> str:
    """Return the first block of a page that shows an audit's screen."""
    blocks = re.findall(r"(?:^(?: {4}.*|)\n)+", page.read_text(), re.M)
    blocks += re.findall(r"```\w*\n(.*?)```", page.read_text(), re.S)
    return next(block for block in blocks if "What can be learnt" in block)


def is_near(shown: str, printed: str | None) -> bool:
    """Return whether two texts differ at most by what another processor's rounding changes."""
    if printed is None or NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    return all(
        abs(float(a) - float(b)) <= (SHARES_APART + 1e-9 if "." in a else COUNTS_APART)
        for a, b in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    )
