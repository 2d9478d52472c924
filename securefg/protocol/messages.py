"""Messages between the parties, with every field declared.

    class Update(Message, kind="my_method.Update"):
        weights: Tensor = private(
            "sum", "model after local training", means=Weights("network"), weight="num_nodes"
        )
        num_nodes: Tensor = private("sum", "how many nodes the client holds", means=Size())

A declaration says who may learn the value. `public`: everybody. `personal`: the server computes it
and only the client that it is addressed to receives it; the first axis is the client.
`confidential`: key material, which no record keeps. `private`: it comes from a client's data and
leaves through `Channel.seal` alone; `"each"` where the server needs the single value, `"sum"` where
it needs only the sum over the clients, `"recipients"` where it needs nothing: part k of the array
is for client k, who opens the sum of all such parts, and nobody else does.

A field that comes from data (`private`, and `personal`, which the server computes from it) also
declares what an adversary would read in it (`meanings`), by which attacks find it. A field that a
server sends (`public`, `personal`) declares which values it may hold (`bounds`).
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType, new_class
from typing import Any, ClassVar, Literal, Self, dataclass_transform

from torch import Tensor

from securefg.foundation.errors import ProtocolError, UndeclaredField
from securefg.protocol.bounds import THIS_ROUND, Bounds, truths
from securefg.protocol.meanings import Holdings, Meaning, Means, Size

Scope = Literal["public", "personal", "confidential", "each", "sum", "recipients"]
Scalar = bool | int | float | str
Value = Tensor | Scalar | None

ALLOWED_TYPES = (Tensor, bool, int, float, str, NoneType)
RESERVED = {"kind", "declarations", "optional", "types", "values", "made_of"}


@dataclass(frozen=True)
class Declaration:
    """A declaration of what a field is and who may see it.

    about   in words, for the ledger and the report: "softmax outputs"
    means   what an adversary would read in it
    rows    what one row of a client's array belongs to ("node"), where it has rows of that kind
    weight  for sums: the field by which each client's value is weighted
    opens   for what the server passes on unread: the `Message.field` of which it is the sum
    constant  never changes in a run: two sums over different clients would show the difference
    holders   for rows that not every client has: the constant field that counts a row's holders
    adds_up   the numbers of a holder's row add up to 1, so that the last follows from the others
    limits_rows  of a request: which rows have enough holders for their sums to be uploaded
    summed_by  for what the server needs from each client: the settings under which a sum suffices
    bounds  the values that a request may hold, checked before a host sees it; weights of a network
            whose layout the method declares need none
    """

    scope: Scope
    about: str
    means: Means | None = None
    rows: str | None = None
    weight: str | None = None
    opens: str | None = None
    constant: bool = False
    summed_by: str = ""
    bounds: Bounds | None = None
    holders: str | None = None
    adds_up: bool = False
    limits_rows: bool = False

    @property
    def is_private(self) -> bool:
        """Return whether a rule of the policy must cover the field."""
        return self.scope in ("each", "sum", "recipients")

    def meaning(self, settings: object) -> Meaning | None:
        """Return what the field means in a run of these method settings."""
        if self.means is None or isinstance(self.means, Meaning):
            return self.means
        return self.means(settings)


def public(
    about: str,
    *,
    means: Means | None = None,
    constant: bool = False,
    bounds: Bounds | None = None,
) -> Any:
    """Declare a value that is the same for everybody, and not derived from one client's data alone.
    A `constant` value must be the same in all requests of a run: clients of masked runs remember it
    by its name."""
    return Declaration("public", about, means, constant=constant, bounds=bounds)


def summable_rows() -> Any:
    """Declare the nodes whose rows may be summed, one truth value per node of the global index.

    A method leaves the field at None. The federation fills it in where sums are exact, from the
    census of holders, and the clients upload no other rows.
    """
    return Declaration(
        "public",
        "nodes with enough holders for their sums to be uploaded",
        Holdings(),
        constant=True,
        bounds=lambda settings, sizes: truths((sizes.num_nodes,)),
        limits_rows=True,
    )


def round_number(about: str = "the round") -> Any:
    """Declare a public number that must be the round in which the message travels."""
    return Declaration("public", about, bounds=lambda settings, sizes: THIS_ROUND)


def personal(
    about: str,
    *,
    means: Means | None = None,
    opens: str | None = None,
    bounds: Bounds | None = None,
) -> Any:
    """Declare a value addressed to single clients: row i of the array goes to the i-th client
    asked.

    With `opens`, the row is the client's own sum of that upload, under pads that the client takes
    off before its host sees the request. The server cannot take them off. The `bounds` leave the
    axis of the clients out, and are of the sum that was opened.
    """
    return Declaration("personal", about, means, opens=opens, bounds=bounds)


def confidential(about: str) -> Any:
    """Declare key material of a protocol, which crosses and is never written to a transcript."""
    return Declaration("confidential", about)


def private(
    needed: Literal["each", "sum", "recipients"],
    about: str,
    *,
    means: Means | None = None,
    rows: str | None = None,
    weight: str | None = None,
    constant: bool = False,
    summed_by: str = "",
    holders: str | None = None,
    adds_up: bool = False,
) -> Any:
    """Declare a value derived from a client's data. The server needs `each` value, or only the
    (weighted) `sum`, or none at all: an array (client, recipient, …) whose sums go to the
    `recipients` alone. A `constant` over a run, as sizes and holdings are, leaves under masks
    once."""
    return Declaration(
        needed,
        about,
        means,
        rows,
        weight,
        constant=constant or isinstance(means, Size | Holdings),
        summed_by=summed_by,
        holders=holders,
        adds_up=adds_up,
    )


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(public, summable_rows, round_number, personal, confidential, private),
)
class Message:
    """A base of all messages. A subclass is a frozen record of declared fields.

    In a reply the first axis of every array is the client, also where a host runs a single one.
    """

    kind: ClassVar[str] = ""
    declarations: ClassVar[dict[str, Declaration]] = {}
    optional: ClassVar[frozenset[str]] = frozenset()
    types: ClassVar[dict[str, frozenset[type]]] = {}

    def __init_subclass__(cls, kind: str = "") -> None:
        if cls.__mro__[1] is not Message:
            raise ProtocolError(f"{cls.__qualname__}: a message cannot be derived from another")
        reserved = sorted(cls.__annotations__.keys() & RESERVED)
        if reserved:
            raise ProtocolError(f"{cls.__qualname__}: {', '.join(reserved)} cannot name a field")
        declared = {name: _make_declaration(cls, name) for name in cls.__annotations__}
        for name in declared:
            delattr(cls, name)
        cls.declarations = declared
        if not re.fullmatch(r"[\w-]+\.\w+", kind):
            raise ProtocolError(
                f"{cls.__qualname__} is of kind {kind!r}; wanted a name that no other method's "
                f'message has: class {cls.__name__}(Message, kind="my_method.{cls.__name__}")'
            )
        cls.kind = kind
        dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        _check_types(cls)

    @classmethod
    def made_of(cls, fields: Mapping[str, Value]) -> Self:
        """Return a message with these fields, and None in all others."""
        return cls(**{**dict.fromkeys(cls.declarations), **fields})

    def values(self) -> dict[str, Value]:
        """Return the value of every field, by name."""
        return {name: getattr(self, name) for name in self.declarations}

    def __repr__(self) -> str:
        """Return sizes only: a message may hold private values, and a repr ends up in logs."""
        parts = ", ".join(
            f"{name}={_describe_value(value)}" for name, value in self.values().items()
        )
        return f"{self.kind}({parts})"


def _make_declaration(cls: type[Message], name: str) -> Declaration:
    declaration = cls.__dict__.get(name)
    if not isinstance(declaration, Declaration):
        raise UndeclaredField(
            f"{cls.__qualname__}.{name} has no declaration: public(), personal() or private()"
        )
    if declaration.means is None and (declaration.is_private or declaration.scope == "personal"):
        raise UndeclaredField(
            f"{cls.__qualname__}.{name} comes from clients' data and does not say what an "
            "adversary would read in it: give means=, one of securefg.protocol.meanings"
        )
    return declaration


def _check_types(cls: type[Message]) -> None:
    hints = typing.get_type_hints(cls)
    cls.types = {}
    cls.optional = frozenset(
        name for name in cls.declarations if NoneType in typing.get_args(hints[name])
    )
    for field in dataclasses.fields(typing.cast(Any, cls)):
        hint, declaration = hints[field.name], cls.declarations[field.name]
        options = set(typing.get_args(hint) if isinstance(hint, UnionType) else (hint,))
        cls.types[field.name] = frozenset(options)
        if not options <= set(ALLOWED_TYPES):
            raise ProtocolError(f"{cls.kind}.{field.name}: {hint} is not a type of the codec")
        if declaration.scope != "public" and not options <= {Tensor, NoneType}:
            raise ProtocolError(f"{cls.kind}.{field.name}: only public fields may be scalars")
        if declaration.weight is not None and declaration.weight not in cls.declarations:
            raise ProtocolError(
                f"{cls.kind}.{field.name}: no field {declaration.weight!r} to weigh by"
            )
        counts = cls.declarations.get(declaration.holders or "")
        if declaration.holders is not None and not (counts and counts.constant):
            raise ProtocolError(
                f"{cls.kind}.{field.name}.holders: found {declaration.holders!r}; expected a "
                "constant field of the message that counts the holders of a row"
            )
        if declaration.adds_up and declaration.holders is None:
            raise ProtocolError(
                f"{cls.kind}.{field.name}.adds_up: found rows without holders; expected holders="
            )


def _describe_value(value: Value) -> str:
    return str(list(value.shape)) if isinstance(value, Tensor) else type(value).__name__


# --------------------------------------------------------------------------------------- census
# Two exact sums of a constant over different clients differ by single clients' values. Where sums
# are masked and carry no noise, constants are therefore left out of ordinary replies and asked for
# by themselves, once in a run. Both messages of a census are derived from the reply whose constants
# it counts, and keep their declarations.


@dataclass(frozen=True)
class Census:
    """A kind of messages that count the constants of one kind of reply."""

    request: type[Message]
    reply: type[Message]

    def asked_in(self, round: int) -> Message:
        """Return the request, as it is sent in a round."""
        make: Any = self.request
        request: Message = make(number=round)
        return request


def census_of(reply: type[Message]) -> Census | None:
    """Return the census of a reply, or None if it has no constants, or nothing else.

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
        request=_derive_message(reply, "Count", {"number": round_number()}, int),
        reply=_derive_message(reply, "Census", counted, Tensor | None),
    )


def _derive_message(
    reply: type[Message], suffix: str, fields: dict[str, Any], kind: Any
) -> type[Message]:
    """Define a message named after the reply. All its fields are of one type."""
    body = {
        "__module__": __name__,
        "__doc__": f"{suffix} of the constants in {reply.kind}.",
        "__annotations__": dict.fromkeys(fields, kind),
        **fields,
    }
    name = reply.__name__ + suffix
    return new_class(name, (Message,), {"kind": reply.kind + suffix}, lambda own: own.update(body))
