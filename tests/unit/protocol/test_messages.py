"""Every field is declared when its class is defined, and a message never prints a value."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from securefg.foundation.errors import ProtocolError, UndeclaredField
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, personal, private, public


class Update(Message, kind="test_messages.Update"):
    weights: Tensor = private("sum", "model", means=Other(), weight="num_nodes")
    num_nodes: Tensor = private("sum", "nodes held", means=Other())
    embeddings: Tensor | None = private("each", "embedding per node", means=Other(), rows="node")
    step: int = public("number of the step")


def an_update() -> Update:
    return Update(
        weights=torch.full((2, 3), 0.125), num_nodes=torch.ones(2), embeddings=None, step=12345
    )


def test_an_undeclared_field_fails_when_the_class_is_defined() -> None:
    with pytest.raises(UndeclaredField, match=r"Bad\.weights has no declaration"):

        class Bad(Message, kind="test_messages.Bad"):
            weights: Tensor


def test_a_plain_default_is_not_a_declaration() -> None:
    with pytest.raises(UndeclaredField, match=r"Bad\.step"):

        class Bad(Message, kind="test_messages.Bad"):
            step: int = 3  # type: ignore[assignment]


@pytest.mark.parametrize(
    "declaration",
    [
        private("sum", "size", means=Other()),
        private("each", "size", means=Other()),
        private("recipients", "size", means=Other()),
        personal("size", means=Other()),
    ],
    ids=["sum", "each", "recipients", "personal"],
)
def test_only_public_fields_may_be_scalars(declaration: object) -> None:
    with pytest.raises(ProtocolError, match="only public fields may be scalars"):

        class Bad(Message, kind="test_messages.Bad"):
            size: int = declaration  # type: ignore[assignment]


@pytest.mark.parametrize(
    "declaration",
    [private("sum", "rows"), private("each", "rows"), private("recipients", "rows"), personal("x")],
    ids=["sum", "each", "recipients", "personal"],
)
def test_what_comes_from_data_says_what_it_means(declaration: object) -> None:
    with pytest.raises(UndeclaredField, match=r"Bad\.rows .*adversary would read in it"):

        class Bad(Message, kind="test_messages.Bad"):
            rows: Tensor = declaration  # type: ignore[assignment]


@pytest.mark.parametrize("kind", ["", "Bad", "my_method.", ".Bad", "a.b.Bad", "my method.Bad"])
def test_a_kind_that_names_no_method_is_refused(kind: str) -> None:
    with pytest.raises(ProtocolError, match="wanted a name that no other method's message has"):

        class Bad(Message, kind=kind):
            size: int = public("size")


def test_a_private_field_that_may_be_a_scalar_is_refused() -> None:
    with pytest.raises(ProtocolError, match="only public fields may be scalars"):

        class Bad(Message, kind="test_messages.Bad"):
            size: Tensor | float = private("sum", "size", means=Other())


def test_a_weight_that_is_no_field_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"Bad\.weights: no field 'sizes' to weigh by"):

        class Bad(Message, kind="test_messages.Bad"):
            weights: Tensor = private("sum", "model", means=Other(), weight="sizes")


def test_a_type_that_the_codec_cannot_carry_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a type of the codec"):

        class Bad(Message, kind="test_messages.Bad"):
            names: list[str] = public("names")


def test_declarations_say_who_may_see_what() -> None:
    assert {name: d.scope for name, d in Update.declarations.items()} == {
        "weights": "sum",
        "num_nodes": "sum",
        "embeddings": "each",
        "step": "public",
    }
    assert [name for name, d in Update.declarations.items() if d.is_private] == [
        "weights",
        "num_nodes",
        "embeddings",
    ]
    assert Update.declarations["weights"].weight == "num_nodes"
    assert Update.declarations["embeddings"].rows == "node"
    assert not personal("row of one client").is_private


def test_fields_that_may_be_none_are_optional() -> None:
    assert Update.optional == {"embeddings"}


def test_the_kind_names_the_module_and_the_class() -> None:
    assert Update.kind == "test_messages.Update"


def test_repr_shows_sizes_and_no_value() -> None:
    shown = repr(an_update())
    assert shown == (
        "test_messages.Update(weights=[2, 3], num_nodes=[2], embeddings=NoneType, step=int)"
    )
    assert "0.125" not in shown
    assert "12345" not in shown


def test_a_message_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        an_update().step = 4  # type: ignore[misc]


def test_every_field_must_be_given_by_name() -> None:
    with pytest.raises(TypeError, match="num_nodes"):
        Update(weights=torch.ones(1, 3), embeddings=None, step=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Update(torch.ones(1, 3))  # type: ignore[call-arg, misc]


def test_values_hold_every_field_in_order() -> None:
    assert list(an_update().values()) == ["weights", "num_nodes", "embeddings", "step"]
