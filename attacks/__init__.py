"""The attacks: one file each; the file's name is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from attacks.base import Attack
from securefg.foundation.errors import ConfigError


def attack_names() -> list[str]:
    """The names of all attacks in this package."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]
    return sorted(name for name in names if hasattr(_module(name), "ATTACK"))


def get_attack(name: str) -> Attack:
    """The attack of that name."""
    if name not in attack_names():
        raise ConfigError(f"unknown attack {name!r}; allowed: {', '.join(attack_names())}")
    attack: Attack = _module(name).ATTACK
    return attack


def attacks_on(method: str) -> list[Attack]:
    """All attacks that are aimed at a method."""
    return [a for a in map(get_attack, attack_names()) if method in a.methods]


def _module(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")
