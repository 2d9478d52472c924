"""Pictures of pages for the docs: 1440 and 390 pixels wide, light and dark.

    python -m tests.e2e.pictures docs/images run=RUN/report.html dpo=RUN/dpo.html \\
        curve=CURVE.html compare=compare.html

writes `run_1440_light.png` and so on: the first screen of each page, with 64 colours.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from tests.e2e.browser import Browser, running_browser

SCREENS = {1440: 900, 390: 1300}
COLOURS = 64


def take_picture(browser: Browser, page: Path, out: Path, width: int, dark: bool) -> None:
    """Write the first screen of a page; a complaint of the page fails."""
    tab = browser.page()
    tab.open(page, width, SCREENS[width], dark=dark)
    tab.picture(out, 0, SCREENS[width])
    assert not tab.complaints, tab.complaints
    with Image.open(out) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(out, optimize=True)


def take_pictures(folder: Path, pages: dict[str, Path]) -> list[Path]:
    """Write four pictures of every page, by name."""
    written = []
    with running_browser() as browser:
        for name, page in pages.items():
            for width in SCREENS:
                for scheme in ("light", "dark"):
                    out = folder / f"{name}_{width}_{scheme}.png"
                    take_picture(browser, page, out, width, scheme == "dark")
                    written.append(out)
    return written


if __name__ == "__main__":
    named = dict(argument.split("=", 1) for argument in sys.argv[2:])
    for path in take_pictures(Path(sys.argv[1]), {k: Path(v) for k, v in named.items()}):
        sys.stdout.write(f"{path} {path.stat().st_size}\n")
