"""Nothing outside its own file names a defence, and a defence without a method is refused."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from securefg.foundation.errors import ConfigError
from securefg.privacy.defence import Defence, NoisyUpload, find_defence
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.private_training import PrivateTraining
from securefg.settings.privacy import shipped_defences

PACKAGES = ("securefg", "attacks", "audits")
FOLDER = Path("securefg/privacy/defences")
EXCEPTIONS = {
    Path("attacks/base.py"): "the word of transcripts for a field that left as it is",
    Path("securefg/settings/privacy.py"): "the defaults: no defence, and the one of a site's gate",
    Path("securefg/settings/execution.py"): "the key `training.dp_sgd`, which configs use",
}
"""Files that may name a defence, each with the reason."""


@cache
def names() -> dict[str, str]:
    """The class of every shipped defence, by name."""
    return {name: find_defence(name).__name__ for name in shipped_defences()}


def named_in(source: str) -> set[str]:
    """The defences that a file names: in text if the name is no ordinary word, by a string that is
    the name, by its class, or by importing its module."""
    tree, named_defences = ast.parse(source), set()
    identifiers = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    identifiers |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            identifiers |= {alias.name for alias in node.names}
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for name, made_by in names().items():
        word = "_" in name and re.search(rf"\b{name}\b", source)
        module = f"privacy.defences.{name}" in source
        if word or module or name in strings or made_by in identifiers:
            named_defences.add(name)
    return named_defences


def test_defences_are_named_in_their_own_files_alone() -> None:
    offenders = {}
    for path in (path for package in PACKAGES for path in Path(package).rglob("*.py")):
        own = {path.stem} if path.parent == FOLDER else set()
        found = named_in(path.read_text()) - own
        if found and path not in EXCEPTIONS:
            offenders[str(path)] = sorted(found)
    assert offenders == {}


def test_exceptions_that_name_no_defence_are_removed() -> None:
    assert [str(path) for path in EXCEPTIONS if not named_in(path.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        'if rule.name == "plain": pass',
        "isinstance(rule, LocalGaussian)",
        "from securefg.privacy.defences.dp_sgd import train",
        '"""As local_gaussian does."""',
    ],
)
def test_named_in_finds_every_way_of_naming_a_defence(source: str) -> None:
    assert len(named_in(source)) == 1


def module_of(found: object, monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("outside_defence")
    module.DEFENCE = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "outside_defence", module)
    monkeypatch.setattr("securefg.foundation.extensions._module_exists", lambda path: True)
    return "outside_defence"


@pytest.mark.parametrize("contract", [Defence, NoisyUpload, PrivateTraining])
def test_find_defence_without_a_method_names_what_is_missing(
    contract: type[Defence], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = type("Lacking", (contract,), {"name": "lacking", "label": "", "noise_in": "upload"})
    with pytest.raises(ConfigError) as told:
        find_defence(module_of(lacking, monkeypatch))
    for missing in (*contract.__abstractmethods__, "about"):
        assert missing in str(told.value)


def test_find_defence_without_a_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="found no DEFENCE in module 'outside_defence'"):
        find_defence(module_of(None, monkeypatch))


def test_find_defence_with_the_name_of_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = type("Taken", (LocalGaussian,), {})
    with pytest.raises(ConfigError, match="'local_gaussian', which is taken"):
        find_defence(module_of(taken, monkeypatch))


def test_find_defence_misspelt_is_answered_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean local_gaussian"):
        find_defence("local_gausian")
