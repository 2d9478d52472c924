"""What secure aggregation costs one client, against the number of clients.

    python benchmarks/secagg_growth.py --figure docs/images/secagg_growth.svg

One client runs its real code through all stages; of the others there are signed keys, sealed boxes
and signatures on the survivors, nothing else. The server may lie (`malicious`). CPU seconds are
medians over sessions, and bytes are those of encoded messages. `first` is a session that sets up
keys, graph and pair secrets; `later` is one that goes on with them. Beyond 33 clients the graph is
sparse, and what a client does for its neighbours should follow a + b log n. Taking in the roster
is shown apart, since a roster has n rows; signatures are checked of neighbours alone.
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
from markupsafe import Markup

from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.reports.figures.canvas import Scale, axis_ticks, coordinate, element
from securefg.secagg import boxes, shamir
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import (
    MaskContext,
    Purpose,
    first_link,
    hybrid_link,
    mask_confirmation,
    next_link,
    session_root,
)
from securefg.secagg.graph import LEAST_DEGREE, choose_parameters
from securefg.secagg.hybrid import FreshPair, Suite, encapsulate_secret
from securefg.secagg.keys import FORMAT, Identity
from securefg.secagg.links import NO_OFFER, mask_link
from securefg.secagg.messages import Advertise, Again, Deliver, Roster, Survivors, Unmask
from securefg.secagg.ring import RingArray, from_bytes, from_ring
from securefg.secagg.secret import Secret
from securefg.secagg.session import Session
from securefg.secagg.shamir import SHARE_BYTES
from securefg.secagg.statements import key_statement, survivors_statement
from securefg.settings.secagg import SecureAggregationSettings

SIZES = (10, 33, 100, 316, 1000, 3162, 10_000)
NUM_VALUES = 10_000
CONFIG_HASH, ROUND, PURPOSE = "0123456789ab", 1, "Upload"
MODEL_HASH = bytes(32)
ADVERTISE = Advertise(purpose=PURPOSE, version=FORMAT)
STAGES = ("keys", "roster", "shares", "open", "mask", "agree", "reveal")


@dataclass
class Cost:
    """CPU seconds by stage, and encoded bytes up, of one client in one session."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    bytes_up: int = 0
    bytes_down: int = 0

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[stage] = time.process_time() - began

    def carried(self, request: Message, reply: Message) -> None:
        self.bytes_down += len(codec.encode(request))
        self.bytes_up += len(codec.encode(reply))


class Others:
    """Everybody but one client: identities that last, and keys that are signed once."""

    def __init__(self, num_clients: int, suite: Suite = "hybrid") -> None:
        self.suite: Suite = suite
        self.identities = [Identity.fresh() for _ in range(num_clients)]
        self.masks = [FreshPair(Secret.fresh(), suite) for _ in range(num_clients)]
        self.boxes = [FreshPair(Secret.fresh(), suite) for _ in range(num_clients)]
        self.signatures = [
            identity.sign(
                "advertise",
                *key_statement(CONFIG_HASH.encode(), ROUND, PURPOSE, n, mask.public, box.public),
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
            model_hash=from_bytes([MODEL_HASH])[0],
            with_pads=False,
        )

    def link(
        self, sender: int, receiver: int, receiver_key: bytes, setup: bytes
    ) -> tuple[Secret, bytes]:
        """The first link of a sender's boxes, and the ciphertext that it sends."""
        agreed = self.boxes[sender].exchange(receiver_key)
        if self.suite == "classical":
            return first_link(setup, agreed), b""
        secret, sent = encapsulate_secret(receiver_key)
        about = (agreed, secret, sent, sender, receiver)
        return hybrid_link(setup, Purpose.BOX_LINK, *about), sent


class LoneClient:
    """One client of a session, run through its stages."""

    def __init__(self, others: Others, number: int, settings: SecureAggregationSettings) -> None:
        known = [identity.public for identity in others.identities]
        self.others, self.number, self.cost = others, number, Cost()
        self.clients = SecureClients(
            settings, CONFIG_HASH, {number: others.identities[number]}, known
        )
        self._turn = Turn(ROUND, 1, Clients.of([number]))
        self._box_key = self._mask_key = b""
        self._survivors = torch.arange(len(others.identities))
        self._links: dict[int, Secret] = {}

    @property
    def session(self) -> Session:
        session = self.clients._session
        assert session is not None
        return session

    def share(self) -> Deliver:
        """Fresh keys and shares; gives what the server would deliver next."""
        with self.cost.timed("keys"):
            keys: Any = self.clients.handle(ADVERTISE, self._turn)
        self.cost.carried(ADVERTISE, keys)
        roster = self.others.roster(self.number, keys)
        self._time_roster_apart()
        with self.cost.timed("shares"):
            shares: Any = self.clients.handle(roster, self._turn)
        self.cost.seconds["shares"] -= self.cost.seconds["roster"]
        self.cost.carried(roster, shares)
        self._box_key = keys.box_key[0].numpy().tobytes()
        self._mask_key = keys.mask_key[0].numpy().tobytes()
        ciphertexts = self._ciphertexts(shares) if self.others.suite == "hybrid" else None
        return self._delivery(shares.boxes[0], ciphertexts)

    def share_again(self) -> Deliver:
        """Shares of the next session of the set-up; its costs are counted anew."""
        self.cost, seats = Cost(), self.session.seats
        self._turn = Turn(self._turn.round + 1, 1, self._turn.clients)
        again = Again(
            purpose=PURPOSE,
            setup=from_bytes([seats.id])[0],
            ordinal=seats.ordinal,
            model_hash=from_bytes([MODEL_HASH])[0],
        )
        with self.cost.timed("shares"):
            shares: Any = self.clients.handle(again, self._turn)
        self.cost.carried(again, shares)
        return self._delivery(shares.boxes[0])

    def _ciphertexts(self, shares: Any) -> tuple[list[bytes], list[bytes]]:
        """What the others send: for their boxes, and for the masks of those behind."""
        graph, sent = self.session.graph, []
        for row, sender in enumerate(graph.holders(self.number)):
            if sender == self.number:
                sent.append(shares.box_ciphertexts[0, row].numpy().tobytes())
                continue
            about = (sender, self.number, self._box_key, self.session.seats.id)
            self._links[sender], ciphertext = self.others.link(*about)
            sent.append(ciphertext)
        masks = [self._offer_of(sender) for sender in graph.neighbours_behind(self.number)]
        return sent, masks + [NO_OFFER] * (graph.num_ahead - len(masks))

    def _offer_of(self, sender: int) -> bytes:
        """What a client behind sends for the masks of the pair."""
        encapsulated = encapsulate_secret(self._mask_key)
        agreed = self.others.masks[sender].exchange(self._mask_key)
        link = mask_link(self.session.seats.id, agreed, encapsulated, sender, self.number)
        return encapsulated[1] + mask_confirmation(link, sender, self.number)

    def _box(self, sender: int) -> bytes:
        """A sender's box in this session, of the next link of its chain."""
        session = self.session
        if sender not in self._links:
            about = (sender, self.number, self._box_key, session.seats.id)
            self._links[sender] = self.others.link(*about)[0]
        root = session_root(self._links[sender], session.id)
        self._links[sender] = next_link(self._links[sender])
        return boxes.seal_box(root, session.id, sender, self.number, bytes(2 * SHARE_BYTES))

    def _time_roster_apart(self) -> None:
        accept = self.clients._accept_roster

        def timed(*arguments: Any) -> None:
            with self.cost.timed("roster"):
                accept(*arguments)

        self.clients._accept_roster = timed  # type: ignore[method-assign]

    def _delivery(
        self, own_boxes: torch.Tensor, sent: tuple[list[bytes], list[bytes]] | None = None
    ) -> Deliver:
        session = self.session
        senders = session.graph.holders(self.number)
        made = [
            own_boxes[row].numpy().tobytes() if sender == self.number else self._box(sender)
            for row, sender in enumerate(senders)
        ]
        zero = shamir.Share(self.number + 1, 0)
        digests = from_bytes([session._share_digests(sender, zero, zero) for sender in senders])
        return Deliver(
            sharers=torch.arange(len(session.clients)),
            boxes=from_bytes(made)[None],
            share_digests=digests[None],
            box_ciphertexts=from_bytes(sent[0])[None] if sent else None,
            mask_ciphertexts=from_bytes(sent[1])[None] if sent else None,
        )

    def open(self, delivery: Deliver) -> None:
        with self.cost.timed("open"):
            ready = self.clients.handle(delivery, self._turn)
        self.cost.carried(delivery, ready)

    def mask(self, rows: RingArray, field: str = "numbers") -> None:
        self.clients.check_request(MODEL_HASH)
        bits = 8 * rows.itemsize
        context = MaskContext(self._turn.round, PURPOSE, field, rows.shape[1], bits)
        self.clients.mask(rows, [self.number], context)

    def agree(self) -> torch.Tensor:
        """Its own signature on the survivors, and those of its neighbours; zeros of the rest."""
        request = Survivors(clients=self._survivors)
        with self.cost.timed("agree"):
            agreed: Any = self.clients.handle(request, self._turn)
        self.cost.carried(request, agreed)
        everybody = tuple(self._survivors.tolist())
        said = survivors_statement(self.session.id, everybody, everybody)
        signatures = torch.zeros(len(everybody), 64, dtype=torch.uint8)
        for place in self.session.graph.holders(self.number):
            signed = self.others.identities[place].sign("survivors", *said)
            signatures[place] = from_bytes([signed])[0]
        return signatures

    def reveal(self, signatures: torch.Tensor) -> None:
        request = Unmask(
            survivors=self._survivors,
            dropped=torch.empty(0, dtype=torch.int64),
            signers=self._survivors,
            signatures=signatures,
        )
        with self.cost.timed("reveal"):
            revealed = self.clients.handle(request, self._turn)
        self.cost.carried(request, revealed)

    def rest(self, delivery: Deliver) -> Cost:
        """All stages after the shares."""
        self.open(delivery)
        rows = np.zeros((1, NUM_VALUES), "<u4")
        with self.cost.timed("mask"):
            self.mask(rows)
        self.cost.bytes_up += encoded_bytes(rows)
        self.reveal(self.agree())
        return self.cost


def session_costs(others: Others, settings: SecureAggregationSettings) -> tuple[Cost, Cost]:
    """Of a session that sets up, and of the next."""
    client = LoneClient(others, len(others.masks) // 2, settings)
    first = client.rest(client.share())
    return first, client.rest(client.share_again())


def encoded_bytes(rows: RingArray) -> int:
    return len(codec.encode_fields({"numbers": from_ring(rows)}))


# ------------------------------------------------------------------------------------ what came out


@dataclass(frozen=True)
class Growth:
    """Medians at one number of clients: milliseconds by stage, kilobytes."""

    session: str
    num_clients: int
    degree: int
    threshold: int
    milliseconds: dict[str, float]
    kilobytes_up: float
    kilobytes_down: float

    @property
    def for_neighbours(self) -> float:
        """All stages but the check of the roster's signatures."""
        return sum(self.milliseconds.values()) - self.milliseconds["roster"]


def measured(
    num_clients: int, repeats: int, settings: SecureAggregationSettings
) -> tuple[Growth, Growth]:
    others = Others(num_clients, settings.keys)
    costs = [session_costs(others, settings) for _ in range(repeats)]
    first, later = zip(*costs, strict=True)
    graph = choose_parameters(num_clients, settings.threat_among(num_clients))
    shape = (num_clients, graph.degree, graph.threshold)
    return _medians("first", shape, first), _medians("later", shape, later)


def _medians(session: str, shape: tuple[int, int, int], costs: Sequence[Cost]) -> Growth:
    return Growth(
        session,
        *shape,
        {s: 1e3 * statistics.median(cost.seconds[s] for cost in costs) for s in STAGES},
        costs[0].bytes_up / 1e3,
        costs[0].bytes_down / 1e3,
    )


@dataclass(frozen=True)
class Fit:
    """y = a + b x by least squares, with the share of the variance that it explains."""

    a: float
    b: float
    r_squared: float

    @classmethod
    def of(cls, x: Sequence[float], y: Sequence[float]) -> Fit:
        b, a = np.polyfit(x, y, 1)
        rest = np.asarray(y) - (a + b * np.asarray(x))
        return cls(float(a), float(b), float(1 - rest.var() / np.var(y)))

    def __str__(self) -> str:
        return f"{self.a:.3g} + {self.b:.3g}"


@dataclass(frozen=True)
class Panel:
    """One drawing: points over the number of clients, and the fit beyond 32 of them."""

    title: str
    values: tuple[float, ...]
    of_n: Callable[[float], float]
    law: str

    def fit(self, sizes: Sequence[int]) -> Fit:
        sparse = [(n, y) for n, y in zip(sizes, self.values, strict=True) if n > LEAST_DEGREE + 1]
        return Fit.of([self.of_n(n) for n, _ in sparse], [y for _, y in sparse])

    def caption(self, sizes: Sequence[int]) -> str:
        fit = self.fit(sizes)
        return f"{fit} {self.law}, R² = {fit.r_squared:.3f}"


def panels(rows: Sequence[Growth]) -> tuple[Panel, ...]:
    return (
        Panel(
            "CPU ms, work for neighbours", tuple(r.for_neighbours for r in rows), math.log, "ln n"
        ),
        Panel("kB up", tuple(r.kilobytes_up for r in rows), math.log, "ln n"),
        Panel(
            "CPU ms, signatures of the roster",
            tuple(r.milliseconds["roster"] for r in rows),
            float,
            "n",
        ),
    )


def print_table(rows: Sequence[Growth]) -> None:
    print(f"one client, {NUM_VALUES} values; CPU ms by stage, kB encoded")
    heads = ("session", "n", "k", "t", *STAGES, "neighbours", "all", "kB up", "kB down")
    print(" ".join(f"{head:>10}" for head in heads))
    for row in rows:
        total = sum(row.milliseconds.values())
        cells = (
            row.session,
            *(f"{number}" for number in (row.num_clients, row.degree, row.threshold)),
            *(f"{row.milliseconds[stage]:.2f}" for stage in STAGES),
            *(f"{x:.2f}" for x in (row.for_neighbours, total)),
            *(f"{x:.1f}" for x in (row.kilobytes_up, row.kilobytes_down)),
        )
        print(" ".join(f"{cell:>10}" for cell in cells))
    sizes = [row.num_clients for row in rows]
    for panel in panels(rows) if rows[0].session == "first" else panels(rows)[:2]:
        print(f"{panel.title}, n > {LEAST_DEGREE + 1}: {panel.caption(sizes)}")


# --------------------------------------------------------------------------------------- the figure

PANEL_WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300.0, 240.0, 48.0, 24.0, 48.0, 40.0
STYLE = """
text { font: 11px sans-serif; fill: #444 } .title { font-weight: bold; fill: #222 }
.grid { stroke: #ddd } .fit { stroke: #c2571a; fill: none; stroke-dasharray: 5 3 }
.dot { fill: #1f5fa8 }
@media (prefers-color-scheme: dark) { text { fill: #bbb } .title { fill: #eee }
  .grid { stroke: #444 } .fit { stroke: #f0965a } .dot { fill: #7fb2ee } }
"""


def drawn(rows: Sequence[Growth]) -> str:
    sizes = [row.num_clients for row in rows]
    parts = [mark for i, p in enumerate(panels(rows)) for mark in _panel(p, sizes, i * PANEL_WIDTH)]
    width = PANEL_WIDTH * len(panels(rows))
    return str(
        element(
            "svg",
            element("style", STYLE),
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:g} {HEIGHT:g}",
            role="img",
            aria_label="Cost of secure aggregation to one client against the number of clients",
        )
    )


def _panel(panel: Panel, sizes: Sequence[int], at: float) -> Iterator[Markup]:
    marks = axis_ticks(0, max(panel.values))
    x = Scale(math.log(sizes[0]), math.log(sizes[-1]), at + LEFT, at + PANEL_WIDTH - RIGHT)
    y = Scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    yield element("text", panel.title, class_="title", x=at + LEFT, y=16)
    yield element("text", panel.caption(sizes), x=at + LEFT, y=32)
    for mark in marks:
        yield element("line", class_="grid", x1=x.start, x2=x.end, y1=y(mark), y2=y(mark))
        yield element("text", f"{mark:g}", x=x.start - 6, y=y(mark) + 4, text_anchor="end")
    for n in (n for n in sizes if math.log10(n).is_integer()):
        place = HEIGHT - BOTTOM + 16
        yield element("text", f"{n:,}", x=x(math.log(n)), y=place, text_anchor="middle")
    middle = (x.start + x.end) / 2
    yield element("text", "clients", x=middle, y=HEIGHT - 6, text_anchor="middle")
    fit = panel.fit(sizes)
    along = np.geomspace(LEAST_DEGREE + 1, sizes[-1], 60)
    line = " ".join(
        f"{coordinate(x(math.log(n)))},{coordinate(y(max(0, fit.a + fit.b * panel.of_n(n))))}"
        for n in along
    )
    yield element("polyline", class_="fit", points=line)
    for n, value in zip(sizes, panel.values, strict=True):
        yield element("circle", class_="dot", cx=x(math.log(n)), cy=y(value), r=3.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--dropout", type=float, help="that the graph makes room for")
    parser.add_argument("--figure", type=Path, help="an SVG file to write")
    parser.add_argument("--keys", choices=("hybrid", "classical"), default="hybrid")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    settings = SecureAggregationSettings(dropout=asked.dropout, keys=asked.keys)
    both = [measured(n, asked.repeats, settings) for n in asked.sizes]
    first, later = ([pair[i] for pair in both] for i in range(2))
    print_table(first)
    print_table(later)
    if asked.figure is not None:
        asked.figure.write_text(drawn(first) + "\n")


if __name__ == "__main__":
    main()
