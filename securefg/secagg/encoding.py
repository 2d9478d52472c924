"""One canonical encoding for everything that is hashed, signed or bound into a key."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias, cast

Item: TypeAlias = "int | str | bytes | tuple[Item, ...]"


def encode(item: Item) -> bytes:
    """Type tag, length on 8 bytes, content: no two different items share an encoding.

    encode(x) = tag(x) || len(content) || content, where an integer is written in decimal, a
    string in UTF-8, and a tuple is the concatenation of its items' encodings. Each encoding says
    where it ends, so no two tuples collide by moving a border: ("ab", "c") is not ("a", "bc").
    """
    # The exact type is asked for: a bool is an int to Python, and True would encode as 1.
    kind = type(item)
    if kind is bytes:
        return _tagged(b"b", cast(bytes, item))
    if kind is int:
        return _number(cast(int, item))
    if kind is str:
        return _text(cast(str, item))
    if kind is tuple:
        return _tagged(b"t", b"".join([encode(one) for one in cast("tuple[Item, ...]", item)]))
    raise TypeError(f"cannot encode {kind.__name__}; wanted int, str, bytes or tuple")


def _tagged(tag: bytes, content: bytes) -> bytes:
    return tag + len(content).to_bytes(8, "big") + content


# Numbers and words come again and again, and are never secret; bytes may be, and are not kept.
@lru_cache(maxsize=4096)
def _number(number: int) -> bytes:
    return _tagged(b"i", b"%d" % number)


@lru_cache(maxsize=256)
def _text(text: str) -> bytes:
    return _tagged(b"s", text.encode())
