"""The pages make a site without a broken link, and nothing in it is fetched from elsewhere."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import securefg

FETCHED = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    log_messages: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log_messages.append(record.getMessage())

    handler = Kept(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(handler)
    out = tmp_path_factory.mktemp("site")
    config = load_config("mkdocs.yml", site_dir=str(out), strict=True)
    try:
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    except SystemExit as ended:
        pytest.fail(f"{ended}: " + "\n".join(log_messages))
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
    return out


def test_every_page_is_there_and_links_lead_somewhere(built: Path) -> None:
    pages = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    wanted = {path.with_suffix(".html").as_posix() for path in Path("docs").rglob("*.md")}
    assert {"index.html", "examples/banks/index.html"} <= pages
    assert wanted - pages == set()


def test_nothing_is_fetched_from_elsewhere(built: Path) -> None:
    assert FETCHED.search('<script src="https://a.example/x.js">')
    found = [path.name for path in built.rglob("*.html") if FETCHED.search(path.read_text())]
    assert found == []


def test_reference_shows_every_public_name(built: Path) -> None:
    pages = [path.read_text() for path in (built / "docs" / "reference").glob("api_*.html")]
    missing = [name for name in securefg.__all__ if not any(name in page for page in pages)]
    assert missing == []


def test_reference_describes_every_setting(built: Path) -> None:
    page = (built / "docs" / "reference" / "settings.html").read_text()
    rows = re.findall(r"<tr>\s*<td><code>(.*?)</code>.*?<td>([^<]*)</td>\s*</tr>", page, re.DOTALL)
    assert len(rows) > 100
    assert [key for key, described in rows if not described.strip()] == []
