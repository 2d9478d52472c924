"""The commands that README, docs and examples show, page by page, and how one is carried out."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from typer.testing import CliRunner

from securefg.cli.main import app

PAGES = sorted([Path("README.md"), *Path("docs").rglob("*.md"), *Path("examples").rglob("*.md")])
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
SHELL = ("bash", "console", "sh", "shell")
PROGRAM = re.compile(r"^(securefg|python3?|pip|make|bash|sh|nvflare|podman|docker|mkdocs) ")


def lines_of(text: str) -> list[str]:
    """Every command: all lines of blocks for a shell, and in other code those that begin with a
    program's name."""
    joined = text.replace("\\\n", " ")
    command_lines = []
    for kind, code in FENCED.findall(joined):
        rows = [row.strip() for row in code.splitlines()]
        if kind in SHELL:
            command_lines += [row for row in rows if row and not row.startswith("#")]
        elif not kind:
            command_lines += [row for row in rows if PROGRAM.match(row)]
    indented = [row for row in FENCED.sub("", joined).splitlines() if row.startswith("    ")]
    command_lines += [row.strip() for row in indented if PROGRAM.match(row.strip())]
    return list(dict.fromkeys(command_lines))


def documented() -> dict[str, list[str]]:
    return {str(page): found for page in PAGES if (found := lines_of(page.read_text()))}


def words_of(line: str) -> list[str]:
    """As a shell would take it, without what goes to files and to the background."""
    typed = re.split(r" (?:>|&)(?: |$)", line)[0]
    words = [word.replace("…", "*") for word in shlex.split(typed, comments=True)]
    return [_found(word) if "*" in word else word for word in words]


def wanted_exit(line: str) -> int:
    told = re.search(r"# exit (\d)", line)
    return int(told[1]) if told else 0


def _found(pattern: str) -> str:
    there = sorted(Path().glob(pattern), key=lambda path: path.stat().st_mtime)
    return str(there[-1]) if there else pattern


def carried_out(words: Sequence[str]) -> tuple[int, str]:
    """In this process: the exit status and what was printed."""
    program, *rest = words
    if program == "securefg":
        done = CliRunner().invoke(app, rest, env={"COLUMNS": "200"})
        return done.exit_code, f"{done.output}{done.exception or ''}"
    if program == "python":
        beside = [str(Path(rest[0]).resolve().parent), *sys.path]
        with (
            mock.patch.object(sys, "argv", rest),
            mock.patch.object(sys, "path", beside),
            mock.patch.dict(os.environ),
        ):
            try:
                runpy.run_path(rest[0], run_name="__main__")
            except SystemExit as ended:
                code = ended.code or 0
                return code if isinstance(code, int) else 1, ""
        return 0, ""
    raise AssertionError(f"no way to carry out {program}")
