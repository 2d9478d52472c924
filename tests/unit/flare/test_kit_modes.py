"""A kit that others can read or change is not started."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.flare.guard.modes import check_modes, mode_problems
from securefg.foundation.errors import ConfigError


def kit(folder: Path) -> Path:
    for name in ("startup/client.key", "local/resources.json", "securefg/keys/client-0.keys"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
        (folder / name).chmod(0o600)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
    return folder


def test_a_kit_of_ones_own_is_fine(tmp_path: Path) -> None:
    check_modes(kit(tmp_path / "kit"))


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("", 0o755),
        ("startup/client.key", 0o640),
        ("securefg/keys/client-0.keys", 0o604),
        ("local/resources.json", 0o622),
        ("local", 0o777),
    ],
)
def test_a_loose_mode_is_named(path: str, mode: int, tmp_path: Path) -> None:
    kit_folder = kit(tmp_path / "kit")
    (kit_folder / path).chmod(mode)
    assert f"{mode:04o}" in mode_problems(kit_folder)[0]
    with pytest.raises(ConfigError, match="chmod"):
        check_modes(kit_folder)


def test_a_key_that_is_a_link_is_refused(tmp_path: Path) -> None:
    found = kit(tmp_path / "kit")
    (found / "startup" / "client.key").rename(tmp_path / "elsewhere")
    (found / "startup" / "client.key").symlink_to(tmp_path / "elsewhere")
    assert "a link" in mode_problems(found)[0]
