"""README is short, its screen is what `securefg demo` prints today, its figures are the docs'.

The page on audits shows the same screen.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from tests.shown_figures import documented_screen, is_near, screen_figures

ROOT = Path.cwd()
README = (ROOT / "README.md").read_text()
MOST_WORDS = 700
PAGES = {"docs/howto/audit.md": 11, "README.md": 8}  # and their least number of figures
# A figure of README, and the page and the row that it comes from.
FIGURES = {
    ".793": ("docs/reference/commands.md", "2,708 of Cora"),
    ".736": ("docs/reference/commands.md", "2,708 of Cora"),
    ".771": ("docs/reference/commands.md", "2,708 of Cora"),
    "1.1": ("docs/research/benchmarks.md", "messages, ledger and transcript"),
    "5.3": ("docs/research/benchmarks.md", "Flower's SecAgg+ over ours, CPU: upload stage"),
    "2.8": ("docs/research/benchmarks.md", "a round of a million users by the command"),
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the demo was run, and what it printed at 80 columns."""
    folder = tmp_path_factory.mktemp("demo")
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "80"})
    finally:
        os.chdir(ROOT)
    assert done.exit_code == 0, (done.output, done.exception)
    return folder, done.stdout


@pytest.fixture(scope="module")
def screen(demo: tuple[Path, str]) -> list[str]:
    """The lines of the audit."""
    lines = demo[1].splitlines()
    return lines[lines.index("2 of 2: attack what was recorded") + 1 : lines.index("Next")]


def test_quickstart_audit_fits_a_screen(screen: list[str]) -> None:
    shown = [line for line in screen if not line.startswith(("Page", "Try"))]
    assert len(screen) <= 45
    assert max(map(len, shown)) <= 80
    assert screen[2].startswith("NOT PRIVATE")


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_the_command_prints(screen: list[str], page: str) -> None:
    shown, today = screen_figures(documented_screen(ROOT / page)), screen_figures("\n".join(screen))
    assert len(shown) >= PAGES[page]
    assert [name for name, text in shown.items() if not is_near(text, today.get(name))] == []


def figures_table() -> str:
    return README.partition("## Four figures")[2].partition("\n## ")[0]


def test_readme_has_at_most_700_words() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_readme_screen_is_what_the_demo_prints(demo: tuple[Path, str]) -> None:
    found = re.search(r"```text\n(.*?)```", README, re.DOTALL)
    assert found is not None
    screen = [line.rstrip() for line in found[1].strip().splitlines()]
    printed = [line.rstrip() for line in demo[1].splitlines()]
    assert len(screen) >= 15
    assert max(map(len, screen)) <= 80
    assert screen[0] in printed, demo[1]
    start = printed.index(screen[0])
    assert printed[start : start + len(screen)] == screen


@pytest.mark.parametrize("figure", FIGURES)
def test_readme_figure_is_in_the_docs_with_its_command(figure: str) -> None:
    page, row = FIGURES[figure]
    (line,) = [x for x in (ROOT / page).read_text().splitlines() if row in x and x.startswith("|")]
    own = next(x for x in figures_table().splitlines() if figure in x)
    command = re.findall(r"`([^`]*)`", own)[-1]
    assert figure in line
    assert command in line


def test_readme_has_no_figure_that_is_not_compared() -> None:
    texts = [re.sub(r"`[^`]*`", "", line) for line in figures_table().splitlines()]
    decimals = set(re.findall(r"\d*\.\d+", " ".join(texts)))
    assert decimals == set(FIGURES)


@pytest.mark.parametrize("words", [("report", "--for", "dpo"), ("verify",)])
def test_demo_run_can_be_reported_and_verified(
    demo: tuple[Path, str], words: tuple[str, ...]
) -> None:
    (run,) = (demo[0] / "runs").glob("quickstart-s0-*")
    done = CliRunner().invoke(app, [words[0], str(run), *words[1:]])
    assert done.exit_code == 0, (done.output, done.exception)
