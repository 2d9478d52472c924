"""What a server may have a site's job do, as the header of a signed packet says it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from securefg.foundation.errors import ProtocolError

LARGEST = 2**31
TAG = re.compile(r"round-\d{6,9}")


@dataclass(frozen=True)
class Begin:
    """Take up the job."""

    digest: str
    attempt: int
    after_round: int


@dataclass(frozen=True)
class Control:
    """Something for some of the site's hosts; `lengths` cuts the packet's blob between them."""

    do: str
    hosts: tuple[str, ...]
    lengths: tuple[int, ...]
    tag: str


def read_begin(content: dict[str, Any]) -> Begin:
    digest = content.get("digest")
    numbers = [content.get(name) for name in ("attempt", "after_round")]
    if not isinstance(digest, str) or not all(_is_number(number) for number in numbers):
        raise ProtocolError("a beginning without digest, attempt and round")
    return Begin(digest, *numbers)  # type: ignore[arg-type]


def read_control(content: dict[str, Any], site: str, own: Collection[str]) -> Control:
    """Raise unless it is for this site and names hosts of it, each once."""
    hosts, lengths = content.get("hosts"), content.get("lengths")
    if content.get("to") != site or not isinstance(hosts, list):
        raise ProtocolError(f"a request for {content.get('to')!r:.60}; here is {site}")
    if not hosts or len(set(map(str, hosts))) != len(hosts) or not set(map(str, hosts)) <= set(own):
        raise ProtocolError(f"a request for {hosts!r:.100}; here is {sorted(own)}")
    if not isinstance(lengths, list) or not all(_is_number(length) for length in lengths):
        raise ProtocolError("a request without the lengths of its parts")
    if len(lengths) not in (1, len(hosts)):
        raise ProtocolError(f"{len(lengths)} parts for {len(hosts)} hosts")
    tag = content.get("tag", "")
    if not isinstance(tag, str) or (tag and not TAG.fullmatch(tag)):
        raise ProtocolError(f"no checkpoint can be called {tag!r:.60}")
    return Control(str(content.get("do")), tuple(hosts), tuple(lengths), tag)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST
