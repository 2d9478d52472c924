"""One canonical encoding for everything that is hashed, signed or bound into a key."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

Item: TypeAlias = "int | str | bytes | tuple[Item, ...]"


def encode(item: Item) -> bytes:
    """Type tag, length on 8 bytes, content: no two different items share an encoding.

    encode(x) = tag(x) || len(content) || content, where an integer is written in decimal, a
    string in UTF-8, and a tuple is the concatenation of its items' encodings. Each encoding says
    where it ends, so no two tuples collide by moving a border: ("ab", "c") is not ("a", "bc").
    """
    # The exact type is asked for: a bool is an int to Python, and True would encode as 1.
    encoder = _ENCODERS.get(type(item))
    if encoder is None:
        raise TypeError(f"cannot encode {type(item).__name__}; wanted int, str, bytes or tuple")
    return encoder(item)


def encode_tuple(*encoded: bytes) -> bytes:
    """The encoding of a tuple whose items are encoded already, several in a row or one by one."""
    return _tag_content(b"t", b"".join(encoded))


@lru_cache(maxsize=32768)
def two_numbers(one: int, other: int) -> bytes:
    """`in_a_row` for the two parties that a key or a box is of, who meet again and again."""
    return in_a_row(one, other)


def in_a_row(*items: Item) -> bytes:
    """The encodings of several items, for `tupled`."""
    return b"".join([encode(item) for item in items])


def _tag_content(tag: bytes, content: bytes) -> bytes:
    return _tag_start(tag, len(content)) + content


@lru_cache(maxsize=4096)
def _tag_start(tag: bytes, length: int) -> bytes:
    return tag + length.to_bytes(8, "big")


# Numbers and words come again and again, and are never secret; bytes may be, and are not kept.
@lru_cache(maxsize=16384)
def _encode_number(number: int) -> bytes:
    return _tag_content(b"i", b"%d" % number)


@lru_cache(maxsize=256)
def _encode_text(text: str) -> bytes:
    return _tag_content(b"s", text.encode())


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    int: _encode_number,
    str: _encode_text,
    bytes: partial(_tag_content, b"b"),
    tuple: lambda items: _tag_content(b"t", in_a_row(*items)),
}
