"""Record `securefg demo` in a pseudo-terminal of 80 columns, and draw the session as one SVG.

    python docs/site/record_demo.py docs/images/demo.svg

The last screen is shown whole. Lines appear in the order and at the times of the recording, pauses
shortened to a second. Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

COLUMNS, LINE, CHAR, LONGEST_PAUSE = 80, 17, 8.4, 1.0
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#56d4dd"}


def record_session(command: list[str], folder: str) -> list[tuple[float, str]]:
    """Run a command in a terminal, and return what it printed with the seconds since its start."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "60", "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment, cwd=folder)
    os.close(theirs)
    start, chunks = time.monotonic(), []
    while True:
        ready, _, _ = select.select([ours], [], [], 0.1)
        try:
            chunk = os.read(ours, 65536) if ready else b""
        except OSError:
            chunk = b""
        if chunk:
            chunks.append((time.monotonic() - start, chunk.decode(errors="replace")))
        elif process.poll() is not None:
            return chunks


def replay_screen(chunks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the lines of the last screen with the time at which each was last written."""
    lines: list[tuple[float, str]] = [(0.0, "")]
    row = 0
    for when, text in chunks:
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r\n|\n|\r)", text):
            code = ESCAPE.fullmatch(part)
            if part in ("\r\n", "\n"):
                row += 1
                lines += [(when, "")] * (row + 1 - len(lines))
            elif part == "\r":
                lines[row] = (when, "")
            elif code and code[2] == "A":
                row = max(0, row - int(code[1] or 1))
            elif code and code[2] == "K":
                lines[row] = (when, "")
            elif part and not (code and code[2] != "m"):
                lines[row] = (when, lines[row][1] + part)
    return lines


def shorten_pauses(lines: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the lines with no pause between two of them longer than a second."""
    shown, now, before = [], 0.0, 0.0
    for when, text in lines:
        now += min(max(when - before, 0.05), LONGEST_PAUSE)
        before = max(before, when)
        shown.append((now, text))
    return shown


def coloured_spans(text: str) -> str:
    """Return a line with its colours as SVG text spans."""
    spans, style, place = [], "", 0
    for escape_match in [*ESCAPE.finditer(text), None]:
        end = escape_match.start() if escape_match else len(text)
        if text[place:end]:
            spans.append(f"<tspan{style}>{escape(text[place:end])}</tspan>")
        if escape_match:
            codes, place = escape_match[1].split(";"), escape_match.end()
            colour = next((COLOURS[c] for c in codes if c in COLOURS), None)
            fill = f' fill="{colour}"' if colour else ""
            style = fill + (' font-weight="bold"' if "1" in codes else "")
    return "".join(spans)


def draw_session(lines: list[tuple[float, str]], prompt: str) -> str:
    """Return the session as an SVG whose lines appear one after another."""
    screen = [(0.0, f"$ {prompt}"), *lines]
    width, height = COLUMNS * CHAR + 24, len(screen) * LINE + 24
    rows = [
        f'<text x="12" y="{24 + i * LINE}" style="animation-delay:{when:.2f}s">'
        f"{coloured_spans(text)}</text>"
        for i, (when, text) in enumerate(screen)
        if text
    ]
    style = (
        "text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre;"
        "opacity:0;animation:a .01s forwards}@keyframes a{to{opacity:1}}"
        "@media(prefers-reduced-motion:reduce){text{opacity:1;animation:none}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="A recorded session of {prompt}"><style>{style}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>{"".join(rows)}</svg>\n'
    )


def main() -> None:
    program = str(Path(sys.executable).with_name("securefg"))
    with tempfile.TemporaryDirectory() as folder:
        chunks = record_session([program, "demo"], folder)
    lines = [(w, t) for w, t in shorten_pauses(replay_screen(chunks))]
    while lines and not lines[-1][1].strip():
        lines.pop()
    Path(sys.argv[1]).write_text(draw_session(lines, "make demo"))


if __name__ == "__main__":
    main()
