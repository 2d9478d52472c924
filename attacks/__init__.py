"""The attacks: one file each, found by what they need; none knows a method by its name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Final

from attacks.base import Attack
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed

GROUP: Final = "securefg.attacks"


@cache
def shipped() -> dict[str, str]:
    """Module by name, for the attacks of this package."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]
    paths = {name: f"{__name__}.{name}" for name in sorted(names)}
    return {n: p for n, p in paths.items() if hasattr(importlib.import_module(p), "ATTACK")}


def attack_names() -> list[str]:
    """All attacks that need no module path: of this package, and of installed ones."""
    return sorted({*shipped(), *installed(GROUP)})


def get_attack(name: str) -> Attack:
    """The attack of that name, or of that module where the name is a path."""
    attack = getattr(find_module("attack", name, shipped(), GROUP), "ATTACK", None)
    if not isinstance(attack, Attack):
        raise ConfigError(f"attack: module {name!r} exposes no ATTACK (attacks.base.Attack)")
    return attack
