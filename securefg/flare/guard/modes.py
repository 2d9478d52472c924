"""Whether a kit is its owner's alone: others can read no key and change nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from securefg.foundation.errors import ConfigError
from securefg.foundation.json_text import read_json

SECRET = ("*.key", "*.keys")


def check_modes(kit: Path) -> None:
    """Raise `ConfigError` unless all is well; `problems` says what is not."""
    found = mode_problems(kit)
    if found:
        raise ConfigError("; ".join(found[:3]) + f"; `chmod -R go= {kit}`")


def mode_problems(kit: Path) -> list[str]:
    """What of a kit others could read or change, or what is not its owner's."""
    problem_texts = [
        reason for folder in (kit, *_home_elsewhere(kit)) for reason in _folder_problems(folder)
    ]
    secrets = {path for pattern in SECRET for path in kit.rglob(pattern)}
    for path in sorted({*secrets, *_settings_paths(kit)}):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            problem_texts.append(f"{path}: a link; wanted a file")
        elif info.st_uid != os.geteuid():
            problem_texts.append(f"{path}: owned by user {info.st_uid}; wanted {os.geteuid()}")
        elif _file_mode(path) & (0o077 if path in secrets else 0o022):
            wanted = "0600" if path in secrets else "no write for others"
            problem_texts.append(f"{path}: mode {_file_mode(path):04o}; wanted {wanted}")
    return problem_texts


def _settings_paths(kit: Path) -> set[Path]:
    parts = [kit / "startup", kit / "local"]
    return {*parts, *(path for part in parts for path in part.rglob("*"))}


def _file_mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def _folder_problems(path: Path) -> list[str]:
    """A kit, or a home that is not in it: nobody else comes in, whatever lies there."""
    try:
        owner, mode = path.stat().st_uid, _file_mode(path)
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    if owner != os.geteuid():
        return [f"{path}: owned by user {owner}; wanted {os.geteuid()}"]
    return [f"{path}: mode {mode:04o}; wanted 0700"] if mode & 0o077 else []


def _home_elsewhere(kit: Path) -> list[Path]:
    """A site's home, where the kit's word on it leads out of the kit."""
    own = kit / "local" / "securefg"
    try:
        home = (own / str(read_json(own / "site.json")["home"])).resolve()
    except (OSError, ValueError, KeyError, TypeError):
        return []  # a server's kit, or one that cannot be started
    return [] if home.is_relative_to(kit.resolve()) else [home]
