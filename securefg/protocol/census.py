"""The census: the constants of a reply, asked for by themselves and opened once in a run.

Two exact sums of a constant over different clients differ by single clients' values. Where sums are
masked and carry no noise, constants are therefore left out of ordinary replies. Both messages of a
census are derived from the reply whose constants it counts, and keep their declarations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import new_class
from typing import Any

from torch import Tensor

from securefg.protocol.messages import Message, round_number


@dataclass(frozen=True)
class Census:
    """The messages that count the constants of one kind of reply."""

    request: type[Message]
    reply: type[Message]

    def asked_in(self, round: int) -> Message:
        """Return the request, as it is sent in a round."""
        make: Any = self.request
        request: Message = make(number=round)
        return request


def census_of(reply: type[Message]) -> Census | None:
    """Return the census of a reply; None where it has no constants, or nothing else.

    A reply of constants alone is its own census: a method asks for it once.
    """
    key: Any = reply
    return _census_of(key)


@cache
def _census_of(reply: Any) -> Census | None:
    private = {name: d for name, d in reply.declarations.items() if d.is_private}
    constants = {name: d for name, d in private.items() if d.constant and d.scope == "sum"}
    if not constants or len(constants) == len(private):
        return None
    counted = {name: replace(d, weight=None) for name, d in constants.items()}
    return Census(
        request=_derived(reply, "Count", {"number": round_number()}, int),
        reply=_derived(reply, "Census", counted, Tensor | None),
    )


def _derived(reply: type[Message], suffix: str, fields: dict[str, Any], kind: Any) -> type[Message]:
    """Define a message named after the reply; all its fields are of one type."""
    body = {
        "__module__": __name__,
        "__doc__": f"{suffix} of the constants in {reply.kind}.",
        "__annotations__": dict.fromkeys(fields, kind),
        **fields,
    }
    name = reply.__name__ + suffix
    return new_class(name, (Message,), {"kind": reply.kind + suffix}, lambda own: own.update(body))
