"""What came down to the clients, field by field."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.protocol.messages import Declaration, Message
from securefg.reports.results import Results
from securefg.reports.traffic import Kind
from securefg.reports.units import number, plural


@dataclass(frozen=True)
class Received:
    field: str
    about: str
    often: str
    reader: str


def received(results: Results) -> tuple[Received, ...]:
    sent = {kind.kind: kind for kind in results.traffic.kinds if not kind.up}
    return tuple(
        _line(message, name, declared, sent[message.kind])
        for message in results.method.messages
        if message.kind in sent
        for name, declared in message.declarations.items()
    )


def _line(message: type[Message], name: str, declared: Declaration, kind: Kind) -> Received:
    return Received(
        field=f"{message.__name__}.{name}",
        about=declared.about,
        often=_often(message, name, kind),
        reader=_reader(declared),
    )


def _reader(declared: Declaration) -> str:
    if declared.scope == "public":
        return "Every client that was asked, and the server."
    if declared.opens is not None:
        return "Only the client it is addressed to; the server passes it on unread."
    return "Only the client it is addressed to, and the server."


def _often(message: type[Message], name: str, kind: Kind) -> str:
    if name not in message.optional:
        return f"in all {plural(kind.messages, 'message')}"
    if not kind.kept:
        return "in some messages or none: no bodies were kept"
    found = f"in {number(kind.fields.get(name, 0))} of {number(kind.kept)} kept bodies"
    thinned = kind.records - kind.kept
    return f"{found}; not known for {number(thinned)} thinned out" if thinned else found
