"""The configs that come with securefg, found by name: `quickstart` needs no path."""

from __future__ import annotations

from pathlib import Path

from securefg.foundation.errors import ConfigError
from securefg.foundation.suggestions import suggest_name

SUFFIX = ".yaml"


def configs_folder() -> Path:
    """Return the folder of configs: inside the package if it is installed, beside it in a
    checkout."""
    inside = Path(__file__).parents[1] / "configs"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "configs"


def config_names() -> list[str]:
    """Return the names of all shipped configs, sorted."""
    return sorted(path.stem for path in configs_folder().glob(f"*{SUFFIX}"))


def find_config(asked: Path) -> Path:
    """Return a file as it is given, and otherwise the shipped config of that name."""
    name = asked.name.removesuffix(SUFFIX)
    shipped = configs_folder() / f"{name}{SUFFIX}"
    if asked.exists() and not asked.is_dir():
        return asked
    if asked.parent == Path() and shipped.is_file():
        return shipped
    if asked.exists():
        raise ConfigError(
            f"{asked}: found a folder; expected a YAML file or a shipped config's name"
        )
    raise ConfigError(
        f"{asked}: found no such file; expected a YAML file or a shipped config's name "
        f"(`securefg list configs`){_suggest_config(name)}"
    )


def name_config(path: Path) -> str:
    """Return what to type for a config: a shipped one's name, else its path."""
    return path.stem if path.parent == configs_folder() else str(path)


def _suggest_config(name: str) -> str:
    hint = suggest_name(name, config_names())
    return f"; {hint}" if hint else ""


def first_comment(path: Path) -> str:
    """Return what a config says of itself, for lists."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            return line.lstrip("# ").strip()
    return ""
