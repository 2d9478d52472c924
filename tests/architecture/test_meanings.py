"""No attack and no audit knows a method by name, and no private field is without a meaning."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from securefg.foundation.errors import ConfigError, ProtocolError, UndeclaredField
from securefg.methods.base import Method
from securefg.methods.registry import get_method
from securefg.protocol.meanings import Meaning
from securefg.protocol.messages import Message, private, public
from securefg.settings.methods import SHIPPED

FILES = [path for room in ("attacks", "audits") for path in Path(room).rglob("*.py")]
NAMES = re.compile(
    r"fed_?gl|gfl|appnp_method|nfed_?gnn|cnfgnn|ppfl|deep_?walk|fed_?avg|fed_?prox|fed_?mlp|\bmlps\b"
    r"|(two|own|pseudo)_?sums|one_sum|best_alone|noisy_counts",
    re.I,
)
WORDS_TOO = {"alone", "label_propagation", "mlps", "private"}
"""Names of methods that are English words: there a string or a comparison would be the slip."""


def names_a_method(source: str) -> set[str]:
    method_names = {match.group().lower() for match in NAMES.finditer(source)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            method_names |= {
                p.value for p in parts if isinstance(p, ast.Constant) and p.value in WORDS_TOO
            }
        if isinstance(node, ast.Compare | ast.Subscript | ast.Match):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "name"]
            method_names |= {n for n in map(ast.unparse, inner) if n.endswith("method.name")}
    return method_names


def test_attacks_and_audits_name_no_method() -> None:
    found = {str(path): names_a_method(path.read_text()) for path in FILES}
    assert len(found) > 80
    assert {path: names for path, names in found.items() if names} == {}


def test_names_a_method_finds_every_shipped_name() -> None:
    assert [n for n in SHIPPED if not names_a_method(f"if method == {n!r}: pass")] == []
    assert names_a_method("known = table[truth.config.method.name]") != set()


def test_private_fields_of_shipped_methods_mean_something() -> None:
    declared = [
        (f"{message.kind}.{field}", declaration.means)
        for name in SHIPPED
        for message in get_method(name).messages
        for field, declaration in message.declarations.items()
        if declaration.is_private or declaration.scope == "personal"
    ]
    assert len(declared) > len(SHIPPED)
    assert [n for n, means in declared if not (isinstance(means, Meaning) or callable(means))] == []


def test_a_private_field_without_a_meaning_cannot_be_defined() -> None:
    with pytest.raises(UndeclaredField, match="what an adversary would read in it"):

        class Bare(Message, kind="test.Bare"):
            rows: Tensor = private("sum", "rows")


def test_a_release_without_a_meaning_is_no_method() -> None:
    class Model(Message, kind="test.Model"):
        weights: Tensor = public("model")

    shipped = get_method("fedavg")
    fields = {n: getattr(shipped, n) for n in shipped.__dataclass_fields__}
    with pytest.raises(ProtocolError, match="released to the world"):
        Method(**{**fields, "release": Model, "messages": (Model,)})


@pytest.mark.parametrize(
    ("means", "refusal"),
    [
        (lambda settings: 1 / 0, "fails on these settings: ZeroDivisionError"),
        (lambda settings: None, "gives a NoneType; wanted one of securefg.protocol.meanings"),
    ],
)
def test_a_meaning_that_cannot_be_told_is_bad_input(means: Any, refusal: str) -> None:
    class Odd(Message, kind="test.Odd"):
        rows: Tensor = private("sum", "rows", means=means)

    shipped = get_method("fedavg")
    method = replace(shipped, messages=(*shipped.messages, Odd))
    with pytest.raises(ConfigError, match=f"test.Odd.rows: its means= {refusal}"):
        method.meanings(method.settings())
