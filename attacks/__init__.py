"""The attacks: one file each, found by what they need; none knows a method by its name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Final

from attacks.active.base import ActiveAttack
from attacks.base import Attack
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed

GROUP: Final = "securefg.attacks"


@cache
def shipped() -> dict[str, str]:
    """Module by name, for the attacks of this package."""
    return _with_attacks(list(__path__), __name__)


@cache
def active() -> dict[str, str]:
    """The same for those of a server that lies, which rehearsals alone play."""
    return _with_attacks([f"{folder}/active" for folder in __path__], f"{__name__}.active")


def _with_attacks(folders: list[str], package: str) -> dict[str, str]:
    names = [module.name for module in pkgutil.iter_modules(folders) if not module.ispkg]
    paths = {name: f"{package}.{name}" for name in sorted(names)}
    return {n: p for n, p in paths.items() if hasattr(importlib.import_module(p), "ATTACK")}


def attack_names() -> list[str]:
    """All attacks that need no module path: of this package, and of installed ones."""
    return sorted({*shipped(), *installed(GROUP)})


def get_attack(name: str) -> Attack:
    """The attack of that name, or of that module where the name is a path."""
    attack = getattr(find_module("attack", name, shipped(), GROUP), "ATTACK", None)
    if not isinstance(attack, Attack):
        raise ConfigError(f"attack: module {name!r} exposes no ATTACK (attacks.base.Attack)")
    if isinstance(attack, ActiveAttack):
        raise ConfigError(
            f"attack: {name!r} needs a server that lies, and nobody lied in a recorded run; "
            "`securefg rehearse CONFIG` plays it"
        )
    return attack


def attack_or_error(name: str) -> Attack | ConfigError:
    """An attack that nobody asked for by name, or why it cannot be loaded."""
    try:
        return get_attack(name)
    except ConfigError as error:
        return error


def get_active(name: str) -> ActiveAttack:
    """The active attack of that name, or of that module where the name is a path."""
    attack = getattr(find_module("attack", name, active(), f"{GROUP}.active"), "ATTACK", None)
    if not isinstance(attack, ActiveAttack):
        raise ConfigError(f"attack: module {name!r} exposes no ATTACK that is an ActiveAttack")
    return attack
