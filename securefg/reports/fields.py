"""The fields in words: what left each client and what came down, how often, to whom."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.foundation.errors import ConfigError
from securefg.foundation.units import number, plural, span_words
from securefg.privacy.defence import Defence, find_defence
from securefg.protocol.messages import Declaration, Message
from securefg.reports.results import Booked, Kind, Results


@dataclass(frozen=True)
class Released:
    """A line of the table. `tone`: `open` (left as it is), `masked` (in a sum without noise),
    `void`, `bounded` or `public`."""

    field: str
    about: str
    often: str
    who: str
    tone: str
    protection: str
    seen: str


def released_fields(results: Results) -> tuple[Released, ...]:
    """Return private fields as booked, then the public ones that went up beside them."""
    private = [_private_field(results, booked) for booked in results.booked]
    return (*private, *_public_fields(results))


def find_declaration(results: Results, field: str) -> Declaration | None:
    """Return the declaration of `Message.field`, or None if the method has no such field any
    more."""
    message, _, name = field.partition(".")
    for kind in results.method.every_message:
        if kind.__name__ == message and name in kind.declarations:
            return kind.declarations[name]
    return None


def _private_field(results: Results, booked: Booked) -> Released:
    mechanism = booked.mechanism
    declared = find_declaration(results, mechanism.field)
    return Released(
        field=mechanism.field,
        about=declared.about if declared else "not declared by this version of the method",
        often=_how_often(booked),
        who=f"{plural(booked.num_clients, 'client')}, rounds "
        f"{span_words(booked.first_round, booked.last_round)}",
        tone=_booked_tone(booked),
        protection=_protection_words(results, booked),
        seen=_seen_words(declared, mechanism.masked),
    )


def _how_often(booked: Booked) -> str:
    times = span_words(booked.fewest, booked.most)
    return f"{times} time{'s' if times != '1' else ''} by each client"


def _booked_tone(booked: Booked) -> str:
    if booked.mechanism.noise_multiplier is None:
        return "masked" if booked.mechanism.masked else "open"
    return "bounded" if booked.mechanism.protects else "void"


def _protection_words(results: Results, booked: Booked) -> str:
    mechanism = booked.mechanism
    if mechanism.noise_multiplier is None and mechanism.masked:
        return "Only inside the sum, under masks; the sum itself carries no noise."
    if mechanism.noise_multiplier is None:
        return "Not at all: it left as it is."
    own = results.config.privacy.field_rules.get(mechanism.field)
    name = own.mechanism if own else results.config.privacy.mechanism
    clip = (own.clip_l2 if own else None) or results.config.privacy.clip_l2
    return _find_defence(name, mechanism.rule).booked_words(mechanism, clip)


def _find_defence(name: str, booked: str) -> type[Defence]:
    """Return the defence that a config names, or any if that was not booked or cannot be
    imported."""
    try:
        found = find_defence(name)
    except ConfigError:
        return Defence
    return found if found.name == booked else Defence


def _seen_words(declared: Declaration | None, masked: bool) -> str:
    if masked and declared is not None and declared.scope == "recipients":
        return "Each recipient, its own sum over the clients that stayed; the server, none of it."
    if masked:
        return "The server, the sum over the clients that stayed; no single value."
    if declared is not None and declared.scope == "sum":
        return "The server, each client's own value; the sum would have been enough for it."
    return "The server, each client's own value, which the method needs."


def _public_fields(results: Results) -> list[Released]:
    sent = {kind.kind: kind for kind in results.traffic.kinds if kind.up}
    return [
        Released(
            field=f"{message.__name__}.{name}",
            about=declared.about,
            often=plural(sent[message.kind].messages, "message"),
            who="all clients together",
            tone="public",
            protection=f"Declared {declared.scope}, not private, and so not booked.",
            seen="The server.",
        )
        for message in results.method.every_message
        if message.kind in sent
        for name, declared in message.declarations.items()
        if not declared.is_private
    ]


@dataclass(frozen=True)
class Received:
    """A line of the table of what clients receive."""

    field: str
    about: str
    often: str
    reader: str


def received_fields(results: Results) -> tuple[Received, ...]:
    """Return the lines of what the server sends to clients."""
    sent = {kind.kind: kind for kind in results.traffic.kinds if not kind.up}
    return tuple(
        _received_field(message, name, declared, sent[message.kind])
        for message in results.method.every_message
        if message.kind in sent
        for name, declared in message.declarations.items()
    )


def _received_field(
    message: type[Message], name: str, declared: Declaration, kind: Kind
) -> Received:
    return Received(
        field=f"{message.__name__}.{name}",
        about=declared.about,
        often=_often_words(message, name, kind),
        reader=_reader_words(declared),
    )


def _reader_words(declared: Declaration) -> str:
    if declared.scope == "public":
        return "Every client that was asked, and the server."
    if declared.opens is not None:
        return "Only the client it is addressed to; the server passes it on unread."
    return "Only the client it is addressed to, and the server."


def _often_words(message: type[Message], name: str, kind: Kind) -> str:
    if name not in message.optional:
        return f"in all {plural(kind.messages, 'message')}"
    if not kind.kept:
        return "in some messages or none: no bodies were kept"
    found = f"in {number(kind.fields.get(name, 0))} of {number(kind.kept)} kept bodies"
    thinned = kind.records - kind.kept
    return f"{found}; not known for {number(thinned)} thinned out" if thinned else found
