"""What secure aggregation costs one client, against the number of clients.

    python benchmarks/secagg_growth.py

One client runs its real code through all stages; of the others there are signed keys and sealed
boxes, nothing else. CPU seconds are medians over sessions, and bytes are those of encoded replies.
Beyond 32 clients the graph is sparse, and what a client does for its neighbours should follow
a + b log n. Checking the signatures of the roster is shown apart, since a roster has n rows.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from securefg import codec
from securefg.channel import Turn
from securefg.codec import Clients
from securefg.messages import Message
from securefg.secagg import boxes
from securefg.secagg.arrays import from_bytes
from securefg.secagg.client import SHARE_BYTES, SecureClients, Session
from securefg.secagg.derive import MaskContext
from securefg.secagg.keys import Identity, KeyPair
from securefg.secagg.messages import Advertise, Deliver, Roster, Unmask
from securefg.secagg.ring import RingArray
from securefg.secagg.secret import Secret
from securefg.secagg.settings import SecureAggregationSettings
from securefg.secagg.statements import advertised

SIZES = (10, 32, 100, 316, 1000, 3162, 10_000)
NUM_VALUES, NUM_SESSIONS = 10_000, 7
CONFIG_HASH, ROUND, PURPOSE = "0123456789ab", 1, "Upload"
STAGES = ("keys", "roster", "shares", "open", "mask", "reveal")


@dataclass
class Cost:
    """CPU seconds by stage, and encoded bytes up, of one client in one session."""

    seconds: dict[str, float] = field(default_factory=dict)
    bytes_up: int = 0

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[stage] = time.process_time() - began

    def sent(self, reply: Message) -> Message:
        self.bytes_up += len(codec.encode(reply))
        return reply


class Others:
    """Everybody but one client: identities that last, and keys that are signed once."""

    def __init__(self, num_clients: int) -> None:
        self.identities = [Identity.fresh() for _ in range(num_clients)]
        self.masks = [KeyPair.fresh() for _ in range(num_clients)]
        self.boxes = [KeyPair.fresh() for _ in range(num_clients)]
        self.signatures = [
            identity.sign(
                "advertise",
                *advertised(CONFIG_HASH.encode(), ROUND, PURPOSE, n, mask.public, box.public),
            )
            for n, (identity, mask, box) in enumerate(
                zip(self.identities, self.masks, self.boxes, strict=True)
            )
        ]

    def roster(self, client: int, keys: Any) -> Roster:
        """The roster with one client's own keys in its row."""
        columns = [
            from_bytes([pair.public for pair in self.masks]),
            from_bytes([pair.public for pair in self.boxes]),
            from_bytes(self.signatures),
        ]
        for column, own in zip(columns, (keys.mask_key, keys.box_key, keys.signature), strict=True):
            column[client] = own[0]
        mask_keys, box_keys, signatures = columns
        return Roster(
            clients=torch.arange(len(self.masks)),
            mask_keys=mask_keys,
            box_keys=box_keys,
            signatures=signatures,
            model_hash=torch.zeros(32, dtype=torch.uint8),
        )

    def box(self, sender: int, receiver: int, receiver_key: bytes, session: bytes) -> bytes:
        root = self.boxes[sender].agree(receiver_key, session)
        return boxes.seal(root, session, sender, receiver, bytes(2 * SHARE_BYTES))


class LoneClient:
    """One client of a session, run through its stages."""

    def __init__(self, others: Others, number: int, settings: SecureAggregationSettings) -> None:
        known = [identity.public for identity in others.identities]
        self.others, self.number, self.cost = others, number, Cost()
        self.clients = SecureClients(
            settings, CONFIG_HASH, {number: others.identities[number]}, known
        )
        self._turn = Turn(ROUND, 1, Clients.of([number]))

    @property
    def session(self) -> Session:
        session = self.clients._session
        assert session is not None
        return session

    def share(self) -> Deliver:
        """Fresh keys and shares; gives what the server would deliver next."""
        with self.cost.timed("keys"):
            keys: Any = self.clients.handle(Advertise(purpose=PURPOSE), self._turn)
        self.cost.sent(keys)
        roster = self.others.roster(self.number, keys)
        self._time_roster_apart()
        with self.cost.timed("shares"):
            shares: Any = self.clients.handle(roster, self._turn)
        self.cost.seconds["shares"] -= self.cost.seconds["roster"]
        self.cost.sent(shares)
        return self._delivery(keys.box_key[0].numpy().tobytes(), shares.boxes[0])

    def _time_roster_apart(self) -> None:
        accept = self.clients._accept_roster

        def timed(*arguments: Any) -> None:
            with self.cost.timed("roster"):
                accept(*arguments)

        self.clients._accept_roster = timed  # type: ignore[method-assign]

    def _delivery(self, own_key: bytes, own_boxes: torch.Tensor) -> Deliver:
        session = self.session
        assert session.graph is not None
        senders = session.graph.holders(self.number)
        made = [
            own_boxes[row].numpy().tobytes()
            if sender == self.number
            else self.others.box(sender, self.number, own_key, session.id)
            for row, sender in enumerate(senders)
        ]
        return Deliver(sharers=torch.arange(len(session.clients)), boxes=from_bytes(made)[None])

    def open(self, delivery: Deliver) -> None:
        with self.cost.timed("open"):
            ready = self.clients.handle(delivery, self._turn)
        self.cost.sent(ready)

    def mask(self, rows: RingArray, field: str = "numbers") -> None:
        context = MaskContext(ROUND, PURPOSE, field, rows.shape[1], 8 * rows.itemsize)
        self.clients.mask(rows, [self.number], context)

    def reveal(self) -> None:
        nobody = torch.empty(0, dtype=torch.int64)
        request = Unmask(
            survivors=torch.arange(len(self.session.clients)),
            dropped=nobody,
            signers=nobody,
            signatures=torch.empty(0, 64, dtype=torch.uint8),
        )
        with self.cost.timed("reveal"):
            revealed = self.clients.handle(request, self._turn)
        self.cost.sent(revealed)


def session_cost(others: Others, settings: SecureAggregationSettings) -> Cost:
    client = LoneClient(others, len(others.masks) // 2, settings)
    client.open(client.share())
    rows = np.zeros((1, NUM_VALUES), "<u4")
    with client.cost.timed("mask"):
        client.mask(rows)
    client.cost.bytes_up += len(
        codec.encode_fields({"numbers": torch.from_numpy(rows.view("<i4"))})
    )
    client.reveal()
    return client.cost


if __name__ == "__main__":
    torch.set_num_threads(1)
    for n in SIZES:
        o = Others(n)
        cs = [session_cost(o, SecureAggregationSettings()) for _ in range(3)]
        print(
            n,
            {s: round(1e3 * statistics.median(c.seconds[s] for c in cs), 2) for s in STAGES},
            cs[0].bytes_up,
            flush=True,
        )
