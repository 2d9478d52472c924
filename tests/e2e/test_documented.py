"""Every documented command can be typed, every Python snippet runs, and short ways are gone."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from securefg.cli.main import app
from tests.forks import completed, script

ROOT = Path.cwd()
PAGES = sorted([Path("README.md"), *Path("docs").rglob("*.md"), *Path("examples").rglob("*.md")])
COMMAND = re.compile(r"(?:^ {4,}|`)(securefg [a-z][^`\n]*?)(?:`|$)", re.MULTILINE)
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)
ELSEWHERE = {"data.md"}  # run by tests/unit/data/test_data_page.py
# These begin with something of the reader's.
FRAGMENTS = {"adversaries_measured.md", "transcript_format.md", "flower.md"}


def commands(text: str) -> list[str]:
    """Lines of code that begin with `securefg`, without what belongs to the shell."""
    joined = text.replace("\\\n", " ")
    fenced = [code for kind, code in FENCED.findall(joined) if kind in ("", "console", "bash")]
    found = [line for code in fenced for line in code.splitlines() if line.startswith("securefg ")]
    found += [match.strip() for match in COMMAND.findall(joined)]
    typed = [re.sub(r"\|\S+", "", re.split(r" [>&](?: |$)", line)[0]) for line in found]
    return [line for line in dict.fromkeys(typed) if "..." not in line and "…" not in line]


def documented() -> list[tuple[str, str]]:
    return [(str(page), line) for page in PAGES for line in commands(page.read_text())]


@cache
def whole_command() -> Any:
    """Return the command line, which takes a tenth of a second to build."""
    return typer.main.get_command(app)


def parsed(line: str) -> None:
    """Raises what the command line would raise for words that it does not know."""
    words = [w for w in shlex.split(line, comments=True)[1:] if w not in ("[", "]")]
    command = whole_command()
    while hasattr(command, "commands"):
        name, *words = words
        if name.startswith("-"):
            return  # an option of the whole
        if name not in command.commands:
            raise NotKnown(f"no command {name}")
        command = command.commands[name]
    try:
        if words:
            command.make_context(command.name or "", list(words))
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        if "MissingParameter" in kinds or "Exit" in kinds:
            return  # named in a sentence without its arguments, or with --help
        raise NotKnown(str(error)) from error


class NotKnown(Exception):
    """A word that the command line does not know."""


def faults_of(lines: list[tuple[str, str]]) -> list[str]:
    faults = []
    for page, line in lines:
        try:
            parsed(line)
        except NotKnown as error:
            faults.append(f"{page}: {line}: {error}")
    return faults


def test_documented_commands_can_be_typed() -> None:
    assert len(documented()) > 200
    assert faults_of(documented()) == []


@pytest.mark.parametrize(
    "line", ["securefg rnu quickstart", "securefg run --sett a=b", "securefg data chekc x"]
)
def test_a_mistyped_command_is_seen(line: str) -> None:
    assert len(faults_of([("a page", "securefg list"), ("a page", line)])) == 1


def snippets() -> list[tuple[str, str]]:
    pages = [page for page in PAGES if page.name not in ELSEWHERE]
    return [(str(page), code) for page in pages for code in SNIPPET.findall(page.read_text())]


@pytest.mark.parametrize(("page", "code"), snippets(), ids=lambda v: v[:30])
def test_a_documented_snippet_runs(page: str, code: str, tmp_path: Path) -> None:
    if Path(page).name in FRAGMENTS:
        compile(code, page, "exec")
        return
    (tmp_path / "snippet.py").write_text(code)
    done = completed(lambda: runpy.run_path("snippet.py", run_name="__main__"), tmp_path)
    assert done.returncode == 0, f"{page}: {done.stderr}"


def test_the_page_on_tables_is_gone_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path("docs/howto/tables.md").read_text()
    blocks = [code for kind, code in FENCED.findall(page) if kind == "console"]
    lines = [line for block in blocks for line in block.splitlines()]
    page_commands = [
        shlex.split(line, comments=True)[1:] for line in lines if line.startswith("securefg")
    ]
    assert len(page_commands) == 5
    few = ("--customers", "150", "--rings", "4")
    made = script(ROOT / "examples/banks/generate.py", str(tmp_path / "banks"), *few)
    assert made.returncode == 0, made.stderr
    monkeypatch.chdir(tmp_path)
    yaml = Path("banks/tables.yaml").read_text()
    for words in page_commands:
        if words[:2] == ["data", "prepare"] and "--schema" in words:  # a bank by itself
            shutil.copy("banks/tables.yaml", "banks/north/tables.yaml")
            Path("banks/north/tables.yaml").write_text(yaml + "unknown_ends: drop\n")
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
        Path("banks/north/tables.yaml").unlink(missing_ok=True)
    assert (
        Path("north_prepared/schema.json").read_text() == Path("prepared/schema.json").read_text()
    )
    assert "AT-" not in "".join(p.read_text() for p in Path("aligned").rglob("*.csv"))
