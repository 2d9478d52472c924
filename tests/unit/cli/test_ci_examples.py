"""The examples for CI parse, and the commands in them are ones that securefg accepts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml

from securefg.cli.main import app

FOLDER = Path("examples/ci")


def read(name: str) -> dict[Any, Any]:
    found = yaml.safe_load((FOLDER / name).read_text())
    assert isinstance(found, dict)
    return found


def workflow_steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = read("privacy.yml")["jobs"]["audit"]["steps"]
    return steps


def commands() -> list[str]:
    hooks = read("pre-commit-config.yaml")["repos"][0]["hooks"]
    lines = [step["run"] for step in workflow_steps() if "run" in step]
    return [line for line in [*lines, hooks[0]["entry"]] if line.startswith("securefg ")]


def parse_command(line: str) -> dict[str, Any]:
    """Return the options of a command line, parsed by the command itself and not carried out."""
    _, name, *words = shlex.split(line.partition(" > ")[0])
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    command = group.commands[name]
    return dict(command.make_context(name, words).params)


@pytest.mark.parametrize("line", commands())
def test_ci_example_command_is_accepted(line: str) -> None:
    assert parse_command(line)


def test_ci_example_with_an_unknown_option_would_be_seen() -> None:
    with pytest.raises(Exception, match="fail-in"):
        parse_command("securefg audit x --fail-in new")


def test_ci_examples_fail_on_new_findings() -> None:
    audits = [parse_command(line) for line in commands() if line.startswith("securefg audit")]
    gates = [str(getattr(one["fail_on"], "value", one["fail_on"])).lower() for one in audits]
    assert gates.count("new") == 2


def test_ci_workflow_uploads_sarif_and_the_page() -> None:
    used = {step["uses"].partition("@")[0]: step for step in workflow_steps() if "uses" in step}
    sarif = used["github/codeql-action/upload-sarif"]
    assert any(f"> {sarif['with']['sarif_file']}" in line for line in commands())
    assert used["actions/upload-artifact"]["with"]["path"].endswith("report.html")
    assert sarif["if"] == used["actions/upload-artifact"]["if"] == "always()"
