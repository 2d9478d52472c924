"""The messages by kind, and whether the transcript agrees with what the run counted."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.reports.results import Results
from securefg.reports.traffic import Kind
from securefg.reports.units import bytes_text, number


@dataclass(frozen=True)
class MessageLine:
    kind: str
    direction: str
    messages: str
    payload: str
    envelope: str
    mean: str
    kept: str


@dataclass(frozen=True)
class MessageSection:
    lines: tuple[MessageLine, ...]
    damaged: bool
    agreement: str
    drop_reasons: tuple[tuple[str, str], ...]


def message_section(results: Results) -> MessageSection:
    return MessageSection(
        lines=tuple(_line(kind) for kind in results.traffic.kinds),
        damaged=results.traffic.damage is not None,
        agreement=_agreement(results),
        drop_reasons=tuple((why, number(count)) for why, count in results.traffic.drop_reasons),
    )


def _line(kind: Kind) -> MessageLine:
    return MessageLine(
        kind=kind.kind,
        direction="client → server" if kind.up else "server → client",
        messages=number(kind.messages),
        payload=bytes_text(kind.payload),
        envelope=bytes_text(kind.envelope),
        mean=bytes_text((kind.payload + kind.envelope) / max(kind.messages, 1)),
        kept=f"{number(kind.kept)} of {number(kind.records)}",
    )


def _agreement(results: Results) -> str:
    counted, traffic = results.summary.bytes, results.traffic
    found = (traffic.bytes_sent(up=True), traffic.bytes_sent(up=False))
    if found == (counted.up.total, counted.down.total):
        return "The sizes in the transcript add up to what the run counted, to the byte."
    if traffic.damage is not None:
        why = "The transcript is not whole."
    elif results.summary.attempts > 1:
        why = "Rounds that were lost and repeated are in the transcript twice."
    else:
        why = "Trust neither before you know why."
    return (
        f"The transcript holds {bytes_text(found[0])} up and {bytes_text(found[1])} down; "
        f"the run counted {bytes_text(counted.up.total)} and {bytes_text(counted.down.total)}. "
        f"{why}"
    )
