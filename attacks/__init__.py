"""The attacks, grouped by family. Each attack names what it needs, and no attack names a method."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import Final

from attacks.active.base import ActiveAttack
from attacks.base import AnyAttack, Attack
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed

GROUP: Final = "securefg.attacks"


@cache
def load_shipped_attacks() -> dict[str, AnyAttack]:
    """Return the attacks of this package, by name."""
    return _attacks_in(list(__path__), __name__)


@cache
def load_active_attacks() -> dict[str, AnyAttack]:
    """Return the attacks of a lying server by name. Only rehearsals play them."""
    return _attacks_in([f"{folder}/active" for folder in __path__], f"{__name__}.active")


def _attacks_in(folders: list[str], package: str) -> dict[str, AnyAttack]:
    modules = [m.name for m in pkgutil.iter_modules(folders) if not m.ispkg]
    package_attacks = [
        a
        for name in modules
        for a in _attacks_of_module(importlib.import_module(f"{package}.{name}"))
    ]
    return {
        attack.name: attack for attack in sorted(package_attacks, key=lambda attack: attack.name)
    }


def _attacks_of_module(module: object) -> tuple[AnyAttack, ...]:
    """Return the attacks of a module, from its `ATTACKS` or its one `ATTACK`."""
    one = getattr(module, "ATTACK", None)
    found = getattr(module, "ATTACKS", () if one is None else (one,))
    return tuple(attack for attack in found if isinstance(attack, Attack))


def attack_names() -> list[str]:
    """Return the names of all attacks that need no module path, shipped or from an installed
    package."""
    return sorted({*load_shipped_attacks(), *installed(GROUP)})


def families() -> dict[str, list[str]]:
    """Return the shipped attacks by the family of their secret, such as `links`."""
    names_by_family: dict[str, list[str]] = {}
    for name, attack in load_shipped_attacks().items():
        if attack.question.secret is not None:
            names_by_family.setdefault(attack.question.secret.family, []).append(name)
    return names_by_family


def expand_families(names: Iterable[str]) -> list[str]:
    """Return the names with every family replaced by its attacks, each once."""
    known = families()
    every = [one for name in names for one in known.get(name.lower(), [name])]
    return list(dict.fromkeys(every))


def _find_attack(name: str, known_attacks: dict[str, AnyAttack], group: str) -> AnyAttack:
    """Return the attack of that name: shipped, from an installed package, or from a module path."""
    if name in known_attacks:
        return known_attacks[name]
    module_attacks = _attacks_of_module(
        find_module("attack", name, {key: key for key in known_attacks}, group)
    )
    if not module_attacks:
        raise ConfigError(f"attack: module {name!r} exposes no ATTACK (attacks.base.Attack)")
    if len(module_attacks) > 1:
        raise ConfigError(
            f"attack: module {name!r}: found {len(module_attacks)} attacks; expected one. Put each "
            "attack of your own into a module with one ATTACK"
        )
    return module_attacks[0]


def get_attack(name: str) -> AnyAttack:
    """Return the attack of that name. The name may be a module path."""
    own = load_shipped_attacks()
    is_shipped_lie = name not in own and name in load_active_attacks()
    attack = None if is_shipped_lie else _find_attack(name, own, GROUP)
    if attack is None or isinstance(attack, ActiveAttack):
        raise ConfigError(
            f"attack: {name!r} needs a server that lies, and nobody lied in a recorded run; "
            "`securefg rehearse CONFIG` plays it"
        )
    return attack


def attack_or_error(name: str) -> AnyAttack | ConfigError:
    """Return an attack that nobody asked for by name, or the error that stops it from loading."""
    try:
        return get_attack(name)
    except ConfigError as error:
        return error


def get_active(name: str) -> ActiveAttack:
    """Return the active attack of that name. The name may be a module path."""
    attack = _find_attack(name, load_active_attacks(), f"{GROUP}.active")
    if not isinstance(attack, ActiveAttack):
        raise ConfigError(f"attack: module {name!r} exposes no ATTACK that is an ActiveAttack")
    return attack
