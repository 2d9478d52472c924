"""Pages name files of this repository that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = "securefg|attacks|audits|tests|benchmarks|papers|examples|configs"
NAMED = re.compile(rf"(?:{ROOMS})/[\w/]+\.(?:py|yaml|md|sh|ipynb)")
IN_A_KIT = {"securefg/site_policy.yaml"}  # beside a site's kit, not here


def missing(text: str) -> set[str]:
    return {name for name in NAMED.findall(text) if not (ROOT / name).exists()} - IN_A_KIT


def test_every_file_that_a_page_names_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = {str(page.relative_to(ROOT)): missing(page.read_text()) for page in pages}
    assert {page: names for page, names in found.items() if names} == {}


def test_a_file_that_went_is_missed() -> None:
    assert missing("see `securefg/methods/gone.py` and `README.md`") == {"securefg/methods/gone.py"}
