"""The clients' side of secure aggregation as an endpoint uses it, whichever form it has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from securefg.protocol import codec
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.secagg.derive import MaskContext
from securefg.secagg.errors import Refused
from securefg.secagg.keys import Identity
from securefg.secagg.memory import Memory
from securefg.secagg.ring import RingArray
from securefg.secagg.rules import Rules
from securefg.secagg.secret import RandomBytes
from securefg.settings.secagg import SecureAggregationSettings


class MaskingClients(ABC):
    """All clients of a host, with their long-lived identities and the roster of everybody's."""

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Mapping[int, Identity],
        roster: Sequence[bytes],
        rules: Rules,
        random_bytes: RandomBytes,
        memory_file: Path | None,
    ) -> None:
        self._settings, self._config = settings, config_hash.encode()
        self._rules = rules
        self._identities, self._roster = identities, roster
        self._random = random_bytes
        first = identities[min(identities)]
        self.memory = Memory(first, self._config, memory_file)

    @property
    def malicious(self) -> bool:
        """Whether the server is reckoned to lie."""
        return self._settings.malicious

    @abstractmethod
    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer one stage of secure aggregation for `turn.clients`."""

    def refuse_personal(self, request: Message) -> None:
        """Rows for single clients steer what these upload, and nobody else sees them: a server that
        lies would steer all uploads in a sum but one to what it knows."""
        rows = [n for n, d in request.declarations.items() if d.scope == "personal"]
        if self.malicious and any(getattr(request, name) is not None for name in rows):
            raise Refused(
                f"{request.kind}.{rows[0]} is for single clients, and none can check it against a "
                "server that may lie; allowed with malicious: false"
            )

    def hold_to_constants(self, request: Message, turn: Turn) -> None:
        """What a method declares as constant is the same in all requests of the run, whichever
        message it is in, restarts included."""
        method = request.kind.partition(".")[0]
        for name, declaration in request.declarations.items():
            value = getattr(request, name)
            if declaration.constant and value is not None:
                content = codec.encode_fields({name: value})
                about = (turn.round, turn.clients.numbers())
                self.memory.hold_to(f"{method}.{name}", content, *about)

    @abstractmethod
    def check_reply(self, purpose: str, turn: Turn, constants: Sequence[str]) -> None:
        """Refuse a reply that must not be masked now, before anything is computed for it.

        purpose    the kind of the reply that the request brings
        constants  fields of the reply that never change and would leave without noise
        """

    @abstractmethod
    def check_request(self, request_hash: bytes) -> None:
        """Note the request, before anything is computed for it."""

    def check_redo(self, request_hash: bytes, purpose: str, turn: Turn) -> None:
        """Refuse to handle a request once more unless these clients answered it under masks."""
        self.memory.require_request(turn.round, purpose, turn.clients.numbers(), request_hash)

    @abstractmethod
    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Put masks on every client's row, in place."""

    @abstractmethod
    def open(self, totals: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Take the masks off sums that were passed on to these clients, in place."""

    def enclose_keys(self, purpose: str) -> dict[str, Tensor]:
        """Return what travels beside a masked reply: key material, a row per client.

        purpose  the kind of the reply
        """
        return {}
