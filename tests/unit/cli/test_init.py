"""Shipped configs by name, and a copy to start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.foundation.errors import ConfigError, InputError
from securefg.settings.config import load_config
from securefg.settings.shipped import find_config


def test_the_copied_config_is_the_quickstart_explained(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    copied = load_config(tmp_path / "new" / "config.yaml")
    assert copied.hash == load_config(Path("quickstart")).hash


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(tmp_path)])
    assert isinstance(done.exception, InputError)
    assert (tmp_path / "config.yaml").read_text() == "mine"


def test_an_unknown_name_is_answered_with_those_allowed(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path), "--config", "quikstart"])
    assert isinstance(done.exception, InputError)
    assert "quickstart" in str(done.exception)


def test_a_file_of_the_users_goes_before_a_shipped_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config(Path("quickstart")).parent.name == "configs"
    assert find_config(Path("quickstart.yaml")).parent.name == "configs"
    Path("quickstart.yaml").write_text("method: {name: fedavg}\n")
    assert find_config(Path("quickstart.yaml")) == Path("quickstart.yaml")
    Path("quickstart").mkdir()
    assert find_config(Path("quickstart")).parent.name == "configs"


@pytest.mark.parametrize("asked", ["quikstart", "elsewhere/quickstart.yaml", "../quickstart"])
def test_a_name_that_is_nowhere_is_answered_with_the_nearest(asked: str) -> None:
    with pytest.raises(ConfigError, match="did you mean quickstart"):
        find_config(Path(asked))
