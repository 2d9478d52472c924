"""One canonical encoding for everything that is hashed, signed or bound into a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Item: TypeAlias = "int | str | bytes | tuple[Item, ...]"


def encode(item: Item) -> bytes:
    """Type tag, length on 8 bytes, content: no two different items share an encoding.

    encode(x) = tag(x) || len(content) || content, where an integer is written in decimal, a
    string in UTF-8, and a tuple is the concatenation of its items' encodings. Each encoding says
    where it ends, so no two tuples collide by moving a border: ("ab", "c") is not ("a", "bc").
    """
    # The exact type is asked for: a bool is an int to Python, and True would encode as 1.
    if type(item) not in _CONTENTS:
        raise TypeError(f"cannot encode {type(item).__name__}; wanted int, str, bytes or tuple")
    tag, content_of = _CONTENTS[type(item)]
    content = content_of(item)
    return tag + len(content).to_bytes(8, "big") + content


def _encode_all(items: tuple[Item, ...]) -> bytes:
    return b"".join(map(encode, items))


_CONTENTS: Final[dict[type, tuple[bytes, Callable[[Any], bytes]]]] = {
    int: (b"i", lambda number: b"%d" % number),
    str: (b"s", str.encode),
    bytes: (b"b", bytes),
    tuple: (b"t", _encode_all),
}
