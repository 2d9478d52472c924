"""The recorder: numbers, counts and writes down every message that crosses the boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from torch import Tensor

from securefg.federation.engine import Answer, Dropped
from securefg.privacy.ledger import Mechanism
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope, Size
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Record, TranscriptWriter

BLAMED: Final = "blamed: "
"""Before the reason why a client that broke a session is asked no more."""

SUSPECTED: Final = "suspected: "
"""Before what a client kept back; a second time it is blamed for it."""

ABORTED: Final = "aborted: "
"""Before the digest of the file that says why a masked ask opened nothing."""


@dataclass
class Traffic:
    """A count of bytes and messages so far."""

    seq: int = 0
    up: Size = field(default_factory=Size)
    down: Size = field(default_factory=Size)
    dropped: int = 0


class Recorder:
    """A writer to one transcript.

    keep_body  whether a round's bodies stay in the transcript; headers always do
    """

    def __init__(
        self, transcript: TranscriptWriter, keep_body: Callable[[int], bool], attempt: int
    ) -> None:
        self.traffic = Traffic()
        self._transcript = transcript
        self._keep_body = keep_body
        self._attempt = attempt

    def next_seq(self) -> int:
        """Return the next sequence number."""
        self.traffic.seq += 1
        return self.traffic.seq

    def sent(
        self, envelope: Envelope, framed: dict[str, bytes], personal: tuple[str, ...] = ()
    ) -> None:
        """Record a request to one host, or the same body to many hosts, which is stored once."""
        size = sum((codec.size_of(data) for data in framed.values()), Size())
        self.traffic.down += size
        self._append_record(envelope, tuple(framed), size, personal=personal)

    def received(self, reply: type[Message], envelope: Envelope, answer: Answer) -> None:
        """Record a reply. Key material in it is left out of what is written."""
        size = codec.size_of(answer.framed)
        self.traffic.up += size
        rules = {
            r.mechanism.field.partition(".")[2]: _in_words(r.mechanism) for r in answer.releases
        }
        hidden = {n for n, d in reply.declarations.items() if d.scope == "confidential"}
        if hidden or codec.read_enclosed(envelope.body):
            fields = codec.decode_fields(envelope.body)
            kept = {
                name: value
                for name, value in fields.items()
                if name not in hidden and not name.startswith(codec.ENCLOSED)
            }
            envelope = replace(envelope, body=codec.encode_fields(kept))
        self._append_record(replace(envelope, seq=self.next_seq()), ("server",), size, rules=rules)

    def dropped(self, drop: Dropped, round: int, step: int) -> None:
        """Record that clients dropped out, with the reason."""
        self.traffic.dropped += len(drop.clients)
        seq = self.next_seq()
        envelope = Envelope(seq, round, step, drop.host, "server", "dropped", drop.clients, b"")
        self._append_record(envelope, ("server",), Size(), note=drop.reason)

    def opened(
        self,
        kind: str,
        clients: Clients,
        sums: dict[str, Tensor],
        round: int,
        step: int,
        note: str = "",
    ) -> None:
        """Record what the server learnt from a masked session, which crossed no wire.

        note  the digest of the file that a resumed run reads the sum from
        """
        body, seq = codec.encode_fields(sums), self.next_seq()
        envelope = Envelope(seq, round, step, "sum", "server", f"{kind}.sum", clients, body)
        self._append_record(envelope, ("server",), Size(), note=note)
        self._transcript.sync()

    def aborted(self, round: int, step: int, digest: str) -> None:
        """Record that a masked ask opened nothing, with the digest of the file that says why."""
        seq, nobody = self.next_seq(), Clients(())
        envelope = Envelope(seq, round, step, "server", "server", "dropped", nobody, b"")
        self._append_record(envelope, ("server",), Size(), note=ABORTED + digest)
        self._transcript.sync()

    def _append_record(
        self,
        envelope: Envelope,
        receivers: tuple[str, ...],
        size: Size,
        *,
        rules: dict[str, str] | None = None,
        personal: tuple[str, ...] = (),
        note: str = "",
    ) -> None:
        keep = self._keep_body(envelope.round) or not envelope.body
        self._transcript.append(
            Record.of(
                envelope,
                self._attempt,
                receivers,
                size,
                keep,
                rules=rules or {},
                personal=personal,
                note=note,
            )
        )


def _in_words(mechanism: Mechanism) -> str:
    noised = mechanism.noise_multiplier is not None
    return f"{mechanism.rule}, masked" if noised and mechanism.masked else mechanism.rule


def blamed_in(records: Iterable[Record]) -> dict[int, str]:
    """Return clients that broke a session of secure aggregation, in any attempt, and how."""
    return dict(_noted_rounds(records, BLAMED))


def suspected_in(records: Iterable[Record]) -> Counter[int]:
    """Return how often each client kept its key closed in a dispute, over all attempts."""
    return Counter(client for client, _ in _noted_rounds(records, SUSPECTED))


def _noted_rounds(records: Iterable[Record], prefix: str) -> Iterator[tuple[int, str]]:
    for record in records:
        if record.kind == "dropped" and record.note.startswith(prefix):
            for client in Clients.parse(record.clients).numbers():
                yield client, record.note.removeprefix(prefix)
