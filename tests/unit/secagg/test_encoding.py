"""The canonical encoding tells all items apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.secagg.encoding import Item, encode

LEAVES = st.integers() | st.text(max_size=4) | st.binary(max_size=4)
ITEMS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@settings(max_examples=60, deadline=None)
@given(ITEMS, ITEMS)
def test_equal_encodings_mean_equal_items(one: Item, other: Item) -> None:
    assert (encode(one) == encode(other)) == (one == other and type(one) is type(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a", ("b",)), ("a", "b")),
        (("1",), (1,)),
        (("a",), (b"a",)),
        ((1, 23), (12, 3)),
        ((), ("",)),
    ],
)
def test_borders_and_types_are_part_of_the_encoding(one: Item, other: Item) -> None:
    assert encode(one) != encode(other)


@pytest.mark.parametrize("item", [True, 1.0, None, ["a"]])
def test_what_has_no_encoding_is_refused(item: Any) -> None:
    with pytest.raises(TypeError, match="cannot encode"):
        encode((item,))
