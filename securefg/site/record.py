"""A site's own record of what came to its hosts and what left them, which stays at home.

Keys and shares of secure aggregation are not in it. `securefg deploy audit` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from securefg.federation.engine import Answer
from securefg.protocol import codec
from securefg.protocol.codec import Body, Envelope, Size
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Record, TranscriptWriter

TRANSCRIPT = "transcript"


class SiteRecord:
    """A transcript of one run at one site, which every submission continues.

    every  the bodies of the first and of every so many rounds stay; 0 keeps none; headers stay
    """

    def __init__(
        self,
        folder: Path,
        messages: Sequence[type[Message]],
        every: int,
        attempt: int,
    ) -> None:
        self._kinds = {message.kind: message for message in messages}
        self._every, self._attempt = every, attempt
        self._folder, self._seq = folder / TRANSCRIPT, 0
        self._chain: str | None = None

    def add(self, framed: Body, answer: Answer) -> None:
        """Append a request and its answer, where they are the method's own messages.

        No file stays open, for a site's process may end at any moment. Only the books are waited
        for.
        """
        writer = TranscriptWriter(self._folder, chain=self._chain)
        came = codec.unframe(framed)
        if came.kind in self._kinds:
            declared = self._kinds[came.kind].declarations
            personal = tuple(name for name, d in declared.items() if d.scope == "personal")
            writer.append(self._make_record(came, (came.receiver,), len(framed), personal=personal))
        left = codec.unframe(answer.framed) if answer.framed else None
        if left is not None and left.kind in self._kinds:
            rules = {r.mechanism.field.partition(".")[2]: r.mechanism.rule for r in answer.releases}
            writer.append(self._make_record(left, ("server",), len(answer.framed), rules=rules))
        writer.close()
        self._chain = writer.chain

    def _make_record(
        self,
        envelope: Envelope,
        receivers: tuple[str, ...],
        size: int,
        rules: dict[str, str] | None = None,
        personal: tuple[str, ...] = (),
    ) -> Record:
        self._seq += 1
        every, round = self._every, envelope.round
        keep = every > 0 and (round == 1 or round % every == 0)
        return Record.of(
            replace(envelope, seq=self._seq),
            self._attempt,
            receivers,
            Size(size, 0),
            keep,
            rules=rules or {},
            personal=personal,
        )
