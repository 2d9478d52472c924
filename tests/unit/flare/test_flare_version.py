"""No process of a deployment starts with a FLARE that the guard was not reviewed for."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from securefg.flare.admin import require_flare
from securefg.flare.guard import process
from securefg.flare.guard.supported import SUPPORTED, is_supported
from securefg.foundation.errors import ConfigError

OTHERS = ["2.8.4", "2.10.0", "2.90.1", "3.0.0", "2.9.0rc1", "2.9", "2.9.0.dev1", "12.9.0", "2.9.x"]


@pytest.mark.parametrize("version", OTHERS)
def test_guard_with_other_flare_is_refused_with_range(
    version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("nvflare.__version__", version)
    monkeypatch.setattr(metadata, "version", lambda name: version)
    with pytest.raises(ConfigError, match=rf"nvflare: found {version}; expected >=2\.9\.0,<2\.10"):
        process.guard("site", tmp_path)
    with pytest.raises(ConfigError, match=rf"nvflare: found {version}; expected >=2\.9\.0,<2\.10"):
        require_flare()


@pytest.mark.parametrize("version", ["2.9.0", "2.9.1", "2.9.17"])
def test_supported_flare_is_accepted(version: str) -> None:
    assert is_supported(version)


def test_guard_with_module_unlike_its_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("nvflare.__version__", "2.9.0")
    monkeypatch.setattr(metadata, "version", lambda name: "2.10.0")
    with pytest.raises(ConfigError, match=r"nvflare: found 2\.10\.0"):
        process.guard("site", tmp_path)


def test_process_with_other_flare_exits_with_two(tmp_path: Path) -> None:
    lines = (
        "import sys, nvflare; nvflare.__version__ = '2.10.0'",
        f"sys.argv = ['process', 'site', '-m', {str(tmp_path)!r}]",
        "from securefg.flare.guard.process import main; main()",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "nvflare: found 2.10.0; expected >=2.9.0,<2.10" in done.stderr


def test_requirements_of_package_have_the_supported_range() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert text.count(f'"nvflare{SUPPORTED}"') == text.count('"nvflare>') == 2


def test_installed_flare_is_supported() -> None:
    require_flare()
    assert is_supported(metadata.version("nvflare"))
