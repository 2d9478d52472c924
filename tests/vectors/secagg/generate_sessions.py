"""Write vectors of whole sessions: `python generate_sessions.py [FOLDER]`, by default `sessions/`.

A session is all that crosses, all that the clients drew, and the sum. `told` is what one client
hears, in order. A `bad_*` file names a session, the step at which the server lies to that client,
what it says instead, and the error that must end the session there.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mlkem
import numpy as np
import torch
from generate import Vector, flipped, randomness
from torch import Tensor

from securefg.federation.roles import Replies
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import MaskContext
from securefg.secagg.hybrid import X25519_BYTES, Suite
from securefg.secagg.keys import FORMAT, Identity
from securefg.secagg.secret import Secret
from securefg.secagg.server import Aggregator
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings

ROUND, DIM, CONFIG = 7, 6, "ring: 32"


class Ask(Message, kind="__main__.Ask"):  # the kinds of the stored vectors
    model: Tensor = public("global model")


class Upload(Message, kind="__main__.Upload"):
    numbers: Tensor = private("sum", "numbers", means=Other())


class Recorded:
    """A session of `num_clients` hosts of one client each; those in `dropped` upload nothing."""

    def __init__(
        self,
        num_clients: int,
        dropped: tuple[int, ...],
        listener: int,
        keys: Suite = "hybrid",
    ) -> None:
        label = f"session of {num_clients}"
        self.label, self.dropped, self.listener = label, dropped, listener
        self.settings = SecureAggregationSettings(malicious=True, keys=keys)
        self.encapsulations: list[str] = []
        self.secrets = [Secret.fresh(randomness(f"{label}/{i}/id")) for i in range(num_clients)]
        self.draws: list[list[str]] = [[] for _ in range(num_clients)]
        roster = [Identity(secret).public for secret in self.secrets]
        self.clients = [
            SecureClients(
                self.settings,
                CONFIG,
                {i: Identity(secret)},
                roster,
                random_bytes=self._recording(i),
            )
            for i, secret in enumerate(self.secrets)
        ]
        self.server = Aggregator(self.settings, CONFIG, roster, self._exchange)
        plain = np.frombuffer(randomness(f"{label}/plain")(4 * DIM * num_clients), "<u4")
        self.plain = plain.reshape(num_clients, DIM)
        self.told: list[Vector] = []
        self.said: dict[str, list[Vector]] = {}

    def _recording(self, client: int) -> Callable[[int], bytes]:
        source = randomness(f"{self.label}/{client}")

        def read(num_bytes: int) -> bytes:
            drawn = source(num_bytes)
            self.draws[client].append(drawn.hex())
            return drawn

        return read

    def _encapsulate(self, public: bytes) -> tuple[Secret, bytes]:
        """As `cryptography` does, from randomness that is written down."""
        label = f"{self.label}/encapsulation/{len(self.encapsulations)}"
        drawn = randomness(label)(32)
        self.encapsulations.append(drawn.hex())
        secret, ciphertext = mlkem.encapsulate(public[X25519_BYTES:], drawn)
        return Secret(secret), ciphertext

    @property
    def context(self) -> MaskContext:
        return MaskContext(ROUND, Upload.kind, "numbers", DIM, 32)

    def vector(self) -> Vector:
        with patch("securefg.secagg.hybrid.encapsulate_secret", self._encapsulate):
            opened = self.server.collect(self.ask, Upload, None, ROUND)
        survivors = list(opened.survivors)
        return {
            "version": FORMAT,
            "keys": self.settings.keys,
            "config": CONFIG,
            "round": ROUND,
            "context": [ROUND, Upload.kind, "numbers", DIM, 32],
            "identities": [secret.reveal().hex() for secret in self.secrets],
            "draws": self.draws,
            "encapsulations": self.encapsulations,
            "listener": self.listener,
            "told": self.told,
            "said": self.said,
            "plain": self.plain.tolist(),
            "survivors": survivors,
            "sum": opened.total("numbers", self.context).tolist(),
        }

    @property
    def ask(self) -> Ask:
        return Ask(model=torch.arange(4.0))

    def _exchange(
        self, request: Message, reply: type[Message], clients: Clients | None = None
    ) -> Replies[Any]:
        asked = range(len(self.clients)) if clients is None else clients.numbers()
        silent = self.dropped if reply is Upload else ()
        replied = [n for n in asked if n not in silent]
        replies = [self._answer(n, _own_row(request, list(asked).index(n))) for n in replied]
        self.said[reply.__name__] = [_written(message) for message in replies]
        columns = {
            name: None
            if getattr(replies[0], name) is None
            else torch.cat([getattr(message, name) for message in replies])
            for name in reply.declarations
        }
        return Replies(reply(**columns), Clients.of(replied), ())

    def _answer(self, number: int, request: Message) -> Message:
        if number == self.listener:
            fields = _written(request)
            if isinstance(request, Ask):
                fields = {"request_hash": request_hash(request).hex()}
            self.told.append({"step": type(request).__name__, "fields": fields})
        if not isinstance(request, Ask):
            return self.clients[number].handle(request, Turn(ROUND, 1, Clients.of([number])))
        self.clients[number].check_request(request_hash(request))
        rows = self.plain[[number]].copy()
        self.clients[number].mask(rows, [number], self.context)
        return Upload(numbers=torch.from_numpy(rows.view("<i4")))


def _own_row(request: Message, row: int) -> Message:
    values, declared = request.values(), request.declarations
    personal = [n for n, v in values.items() if declared[n].scope == "personal" and v is not None]
    own = {name: getattr(request, name)[[row]] for name in personal}
    return type(request)(**{**request.values(), **own})


def _written(message: Message) -> Vector:
    """Bytes as hex along the last axis, numbers as lists."""
    return {name: _plain(value) for name, value in message.values().items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.dtype is not torch.uint8:
        return value.tolist()
    if value.dim() == 1:
        return value.numpy().tobytes().hex()
    return [_plain(row) for row in value]


def bad_vectors(base: Vector) -> dict[str, list[Vector]]:
    told = {one["step"]: one["fields"] for one in base["told"]}
    roster, unmask = told["Roster"], told["Unmask"]
    keys, signatures = roster["mask_keys"], unmask["signatures"]
    other = hashlib.sha256(b"another model").hexdigest()

    def lie(step: str, error: str, **change: Any) -> list[Vector]:
        return [{"session": "four_clients", "step": step, "error": error, "change": change}]

    def rows(*chosen: int) -> Vector:
        names = ("clients", "mask_keys", "box_keys", "signatures")
        return {name: [roster[name][i] for i in chosen] for name in names}

    return {
        "bad_advertise_of_format_one": lie("Advertise", "Refused", version=1),
        "bad_roster_with_a_client_twice": lie("Roster", "Refused", **rows(0, 1, 1, 2, 3)),
        "bad_roster_without_the_receiver": lie("Roster", "Refused", **rows(1, 2, 3)),
        "bad_roster_with_a_stranger": lie("Roster", "Refused", clients=[0, 1, 2, 4]),
        "bad_roster_of_two": lie("Roster", "Refused", **rows(0, 1)),
        "bad_roster_with_swapped_keys": lie(
            "Roster", "BadSignature", mask_keys=[keys[0], keys[2], keys[1], keys[3]]
        ),
        "bad_delivery_under_the_threshold": lie("Deliver", "Refused", sharers=[0, 1]),
        "bad_delivery_without_the_receiver": lie("Deliver", "Refused", sharers=[1, 2, 3]),
        "bad_request_for_another_model": lie("Ask", "Refused", request_hash=other),
        "bad_survivors_without_the_receiver": lie("Survivors", "Refused", clients=[1, 2, 3]),
        "bad_survivors_under_the_threshold": lie("Survivors", "Refused", clients=[0, 1]),
        "bad_unmask_of_one_alive_and_dropped": lie("Unmask", "Refused", dropped=[1, 2]),
        "bad_unmask_of_the_receiver": lie("Unmask", "Refused", survivors=[1, 2, 3], dropped=[0]),
        "bad_unmask_of_a_stranger": lie("Unmask", "Refused", dropped=[2, 4]),
        "bad_unmask_of_others_than_agreed": lie(
            "Unmask", "Refused", survivors=[0, 1, 2], dropped=[3]
        ),
        "bad_unmask_with_too_few_signatures": lie(
            "Unmask", "Refused", signers=unmask["signers"][:2], signatures=signatures[:2]
        ),
        "bad_unmask_with_a_changed_signature": lie(
            "Unmask", "BadSignature", signatures=[*signatures[:2], flipped(signatures[2])]
        ),
    }


def main(folder: Path) -> None:
    three, four = Recorded(3, (), 0).vector(), Recorded(4, (2,), 0).vector()
    classical = Recorded(4, (1,), 0, "classical").vector()
    good = {"three_clients": [three], "four_clients": [four], "four_classical": [classical]}
    for name, cases in (good | bad_vectors(four)).items():
        (folder / f"{name}.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "sessions")
