"""No generic module names a method, and no method's algorithm speaks of masks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from securefg.settings.methods import SHIPPED

ROOT = Path(__file__).parents[2]
METHODS = ROOT / "securefg" / "methods"
NAMES = set(SHIPPED) - {"alone"}  # a word of English too: its imports are looked for all the same
MAY_NAME = {
    "securefg/api.py",  # what a notebook calls: a model of one's own is averaged
    "securefg/runs/doctor.py",  # a config that it runs
}
MASKING = {"mask", "masks", "masked", "bare", "census", "noise", "noised", "noisy"}


def named_methods(source: str) -> set[str]:
    """The methods that a module imports, or has as a string of its own."""
    method_names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            method_names.add(str(node.value))
        if isinstance(node, ast.ImportFrom | ast.Import):
            home = getattr(node, "module", None) or ""
            modules = [home, *(f"{home}.{alias.name}".lstrip(".") for alias in node.names)]
            parts = [module.split(".") for module in modules]
            method_names |= {p[2] for p in parts if p[:2] == ["securefg", "methods"] and len(p) > 2}
    return method_names & set(SHIPPED)


def generic_modules() -> list[Path]:
    every = sorted((ROOT / "securefg").rglob("*.py"))
    return [path for path in every if METHODS not in path.parents]


def test_generic_modules_name_no_method() -> None:
    found = {str(p.relative_to(ROOT)): named_methods(p.read_text()) for p in generic_modules()}
    assert {path for path, names in found.items() if names} == MAY_NAME


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from securefg.methods.alone.settings import Settings", {"alone"}),
        ("from securefg.methods import fedgl", {"fedgl"}),
        ("import securefg.methods.fedavg.algorithm", {"fedavg"}),
        ("is_averaged = name == 'fedavg'", {"fedavg"}),
        ("from securefg.methods.base import Method\nwho = 'alone'", set()),
    ],
)
def test_named_methods_of_a_module_are_found(source: str, names: set[str]) -> None:
    assert named_methods(source) == names


def masking_words(source: str) -> set[str]:
    """The words of masking in a module, comments and docstrings included."""
    words = "".join(c if c.isalpha() else " " for c in source.lower()).split()
    return MASKING & set(words)


def test_fedgl_says_nothing_of_masks_in_450_lines() -> None:
    sources = [path.read_text() for path in (METHODS / "fedgl").glob("*.py")]
    assert sum(len(source.splitlines()) for source in sources) <= 450
    assert set[str]().union(*map(masking_words, sources)) == set()


def test_masking_words_of_a_module_are_found() -> None:
    assert masking_words("if site.is_masked:  # no Noise") == {"masked", "noise"}
