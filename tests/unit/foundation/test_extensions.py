"""Names are looked up among what ships, what is installed, and module paths, in this order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from securefg.foundation import extensions
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed
from securefg.foundation.suggestions import explain_unknown_name

SHIPPED = {"decoder": "json.decoder", "encoder": "json.encoder"}
GROUP = "securefg.things"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers two things, one under a shipped name."""

    def points(group: str) -> list[EntryPoint]:
        named = {"tool": "json.tool", "decoder": "json.tool"} if group == GROUP else {}
        return [EntryPoint(name, value, group) for name, value in named.items()]

    monkeypatch.setattr(extensions, "entry_points", points)
    monkeypatch.setattr(extensions, "installed", extensions.installed.__wrapped__)


def test_a_shipped_name_is_found() -> None:
    assert find_module("thing", "decoder", SHIPPED, GROUP).__name__ == "json.decoder"


def test_an_installed_package_offers_by_entry_point(offered: None) -> None:
    assert find_module("thing", "tool", SHIPPED, GROUP).__name__ == "json.tool"
    with pytest.raises(ConfigError, match="found 'tool'"):
        find_module("thing", "tool", SHIPPED, "securefg.others")


def test_nobody_takes_a_shipped_name(offered: None) -> None:
    assert find_module("thing", "decoder", SHIPPED, GROUP).__name__ == "json.decoder"


def test_a_module_path_is_found_from_the_working_folder(beside: Path) -> None:
    (beside / "own_things").mkdir()
    (beside / "own_things" / "inner.py").write_text("VALUE = 3\n")
    (beside / "own_thing.py").write_text("VALUE = 4\n")
    assert find_module("thing", "own_things.inner", SHIPPED, GROUP).VALUE == 3
    assert find_module("thing", "own_thing", SHIPPED, GROUP).VALUE == 4


def test_the_working_folder_hides_no_installed_module(beside: Path) -> None:
    (beside / "colorsys.py").write_text("raise AssertionError('imported')\n")
    assert find_module("thing", "colorsys", SHIPPED, GROUP).rgb_to_hsv


@pytest.mark.parametrize(
    "name", ["decodr", "nowhere.at_all", "", "..", "json.nothing", "a b", "./json.py", ".json"]
)
def test_an_unknown_name_is_answered_with_what_is_allowed(beside: Path, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        find_module("thing", name, SHIPPED, GROUP)
    assert str(refused.value).startswith("thing: ")
    assert "expected decoder, encoder, or a module path" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_near_name_is_proposed() -> None:
    assert explain_unknown_name("thing", "decodr", list(SHIPPED)) == (
        "thing: found 'decodr'; expected decoder or encoder; did you mean decoder?"
    )


@pytest.mark.parametrize(
    ("code", "message_text"),
    [
        ("import no_such_module_anywhere\n", "no_such_module_anywhere"),
        ("x = 1 / 0\n", r"ZeroDivisionError: division by zero \(broken_\w+.py:1\)"),
        ("def f(:\n", "SyntaxError"),
    ],
)
def test_a_module_that_breaks_on_import_is_answered_with_its_own_error(
    beside: Path, code: str, message_text: str
) -> None:
    name = f"broken_{abs(hash(code))}"
    (beside / f"{name}.py").write_text(code)
    with pytest.raises(ConfigError, match=message_text):
        find_module("thing", name, SHIPPED, GROUP)


def test_nothing_is_installed_under_a_group_that_nobody_uses() -> None:
    assert installed("securefg.nobody") == {}
