"""The snippets of docs/howto/flower.md run, one after another, and its commands can be typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from audits.findings.record import Verdict
from audits.plan import Plan
from audits.run import audit
from securefg.site.books import SiteBooks
from tests.flower.test_recorded import MODEL, NODES, nodes_with
from tests.flower.world import NearGrid, array_record

PAGE = Path("docs/howto/flower.md").read_text()
RECORD, OPEN, PROTECT = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = re.findall(r"^(?:\S*python) (\S+\.py) (.*)$", PAGE, re.M)


def run_snippet(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, "docs/howto/flower.md", "exec"), names)
    return names


def keep_mods(mods: list[Any]) -> list[Any]:
    """Stand for ClientApp, which keeps its mods to itself."""
    return mods


def test_page_records_and_protects_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    homes = tmp_path / "sites"
    for node in NODES:
        run_snippet(OPEN.replace("/srv/securefg", str(homes / str(node))))
    (mod,) = run_snippet(PROTECT, ClientApp=keep_mods)["app"]
    assert ClientApp(mods=[mod]) is not None
    grid = NearGrid(NODES, nodes_with(homes, mod))
    arrays = array_record(MODEL)
    run_snippet(RECORD, grid=grid, FedAvg=FedAvg, arrays=arrays)
    assert {len(SiteBooks(homes / str(node)).releases()) for node in NODES} == {5}
    found = {one.attack: one.verdict for one in audit(tmp_path / "exchange", Plan()).findings}
    assert found["integrity"] is Verdict.NOT_DETECTED
    assert Verdict.LEAK not in found.values()


@pytest.mark.parametrize("script", sorted({script for script, _ in COMMANDS}))
def test_page_commands_have_options_that_exist(script: str) -> None:
    done = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    )
    told = {word for name, words in COMMANDS if name == script for word in shlex.split(words)}
    options = {word for word in told if word.startswith("--")}
    assert {option for option in options if option not in done.stdout} == set()
