"""The audit that pages show is the one that the command prints today."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from tests.shown_figures import documented_screen, screen_figures

HERE = Path.cwd()
PAGES = ("docs/audit.md", "README.md")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("quickstart")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        config = str(HERE / "configs" / "quickstart.yaml")
        assert CliRunner().invoke(app, ["run", config, "-q"]).exit_code == 0
        (run,) = Path("runs").iterdir()
        result = CliRunner().invoke(app, ["audit", str(run)], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_quickstart_audit_fits_a_screen(printed: str) -> None:
    lines = printed.splitlines()
    assert len(lines) <= 45
    assert max(len(line) for line in lines if not line.startswith(("Page", "Try"))) <= 80
    assert lines[2].startswith("NOT PRIVATE")


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_the_command_prints(printed: str, page: str) -> None:
    shown, today = screen_figures(documented_screen(HERE / page)), screen_figures(printed)
    assert len(shown) >= (8 if page == "README.md" else 11)  # the README shows the table alone
    assert {name: today.get(name) for name in shown} == shown
