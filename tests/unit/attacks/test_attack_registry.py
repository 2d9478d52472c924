"""Attacks are found by name in every family; a module from outside exposes one."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType

import pytest

import attacks
from attacks import get_attack, load_active_attacks, load_shipped_attacks
from attacks.base import AnyAttack
from securefg.foundation.errors import ConfigError


def exposed(package: ModuleType) -> list[AnyAttack]:
    """Return the attacks of all modules of a package."""
    names = [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(name) for name in names]
    return [attack for module in modules for attack in getattr(module, "ATTACKS", ())]


def test_shipped_attacks_have_names_of_their_own() -> None:
    assert len(exposed(attacks)) == len(load_shipped_attacks()) > 40
    assert (
        len(exposed(importlib.import_module("attacks.active"))) == len(load_active_attacks()) == 6
    )
    assert not load_shipped_attacks().keys() & load_active_attacks().keys()


def test_attacks_are_run_by_functions_of_their_names() -> None:
    assert [a.name for a in exposed(attacks) if a.run.__name__ != a.name] == []


def test_get_attack_module_with_two_attacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = ModuleType("outside.attacks")
    first_attack, other = list(load_shipped_attacks().values())[:2]
    outside.ATTACKS = (first_attack, other)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "outside.attacks", outside)
    with pytest.raises(ConfigError, match="found 2 attacks; expected one"):
        get_attack("outside.attacks")
    outside.ATTACKS = (first_attack,)  # type: ignore[attr-defined]
    assert get_attack("outside.attacks") is first_attack
