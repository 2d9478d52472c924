"""`securefg list` names what may be asked for: what ships, and what installed packages offer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from attacks import attack_names, get_attack, load_active_attacks
from securefg.cli.listing import list_rows
from securefg.foundation import extensions
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Method
from securefg.methods.registry import get_method
from securefg.settings.methods import SHIPPED, method_names, method_settings

Offer = Callable[[str, str, str], None]
ATTACK = """
from dataclasses import replace
from attacks.links import SIMILAR_LINKS as SHIPPED
ATTACK = replace(SHIPPED, name="margin", summary="an attack of somebody else's")
"""
METHOD = """
from dataclasses import replace
from securefg.methods.fedgl.algorithm import METHOD as SHIPPED
METHOD = replace(SHIPPED, summary="a method of somebody else's")
"""


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Install something: offer(group, name, source of its module)."""
    before, points = set(sys.modules), list[EntryPoint]()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        extensions, "entry_points", lambda group: [p for p in points if p.group == group]
    )

    def install(group: str, name: str, source: str) -> None:
        module = f"foreign_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        points.append(EntryPoint(name, module, group))
        extensions.installed.cache_clear()

    yield install
    extensions.installed.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("foreign_"):
            del sys.modules[name]


def listed(kind: str) -> dict[str, str]:
    """The last column by name."""
    return {line[0]: line[-1] for line in list_rows(kind)[1]}


def test_every_shipped_method_and_attack_is_listed_by_the_name_one_asks_for() -> None:
    assert set(listed("methods")) == set(method_names()) == set(SHIPPED)
    assert set(listed("attacks")) == {*attack_names(), *load_active_attacks()}
    assert all(get_attack(name).name == name for name in attack_names())
    assert all(get_method(name).name == name for name in method_names())


def test_an_installed_attack_is_listed_beside_the_shipped_ones(offer: Offer) -> None:
    offer("securefg.attacks", "their_margin", ATTACK)
    found = listed("attacks")
    assert found["their_margin"] == "an attack of somebody else's"
    assert "similar_links" in found
    assert get_attack("their_margin").name == "margin"


def test_an_installed_method_is_listed_and_has_its_settings(offer: Offer) -> None:
    offer("securefg.methods", "theirs", METHOD)
    assert listed("methods")["theirs"] == "a method of somebody else's"
    assert method_settings("theirs") is get_method("theirs").settings
    assert isinstance(get_method("theirs"), Method)


@pytest.mark.parametrize("kind", ["attacks", "methods"])
def test_one_that_cannot_be_loaded_does_not_hide_the_others(offer: Offer, kind: str) -> None:
    offer(f"securefg.{kind}", "broken", "import no_such_module_anywhere\n")
    offer(f"securefg.{kind}", "empty", "")
    listed_entries = listed(kind)
    assert listed_entries["broken"].startswith("cannot be loaded: ")
    assert "No module named 'no_such_module_anywhere'" in listed_entries["broken"]
    assert listed_entries["empty"].startswith("cannot be loaded: ")
    assert {*listed_entries} > {"broken", "empty"}


def test_a_module_without_what_is_asked_for_is_refused(offer: Offer) -> None:
    offer("securefg.attacks", "empty", "")
    offer("securefg.methods", "empty", "METHOD = 3\n")
    with pytest.raises(ConfigError, match="'empty' exposes no ATTACK"):
        get_attack("empty")
    with pytest.raises(ConfigError, match="'empty' exposes no METHOD"):
        get_method("empty")
    with pytest.raises(ConfigError, match="'empty' without METHOD"):
        method_settings("empty")
