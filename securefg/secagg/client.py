"""The clients' side of secure aggregation, for all clients of one host at once.

A client refuses whatever would let a server open a single upload: a roster without it or with
strangers, a cohort under the minimum, another request than the session was made for, survivors and
dropped that overlap, itself among the dropped, fewer survivors than the threshold, a second unmask.
Every refusal raises; nothing of the session leaves after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.secagg import derive, shamir
from securefg.secagg.arrays import from_bytes, to_bytes
from securefg.secagg.derive import MaskContext
from securefg.secagg.encoding import Item
from securefg.secagg.errors import AwayAtUnmasking, Refused
from securefg.secagg.graph import MaskGraph
from securefg.secagg.graph_parameters import choose, fewest
from securefg.secagg.keys import Identity, verify
from securefg.secagg.masks import apply_row_masks
from securefg.secagg.messages import (
    Advertise,
    Agreed,
    Deliver,
    Keys,
    Ready,
    Revealed,
    Roster,
    Shares,
    Survivors,
    Unmask,
)
from securefg.secagg.ring import RingArray
from securefg.secagg.secret import SYSTEM_RANDOM, RandomBytes
from securefg.secagg.session import Party, Session
from securefg.secagg.statements import (
    advertised,
    graph_seed,
    roster_items,
    survivors_statement,
)
from securefg.settings.secagg import SecureAggregationSettings


class SecureClients:
    """All clients of a host, with their long-lived identities and the roster of everybody's."""

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Mapping[int, Identity],
        roster: Sequence[bytes],
        least_survivors: int = 0,
        random_bytes: RandomBytes = SYSTEM_RANDOM,
    ) -> None:
        self._settings, self._config = settings, config_hash.encode()
        self._least = max(settings.min_clients, least_survivors)
        self._identities, self._roster = identities, roster
        self._random = random_bytes
        self._session: Session | None = None

    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer one stage for `turn.clients`."""
        with self._over_when_refused():
            return self._answer(request, turn)

    @contextmanager
    def _over_when_refused(self) -> Iterator[None]:
        """Whatever goes wrong ends the session: nothing of it leaves afterwards."""
        try:
            yield
        except Exception:
            self._session = None
            raise

    def _answer(self, request: Message, turn: Turn) -> Message:
        numbers = turn.clients.numbers()
        match request:
            case Advertise():
                return self._advertise(request, turn, numbers)
            case Roster():
                return self._share(request, numbers)
            case Deliver():
                return self._open(request, numbers)
            case Survivors():
                return self._agree(request, numbers)
            case Unmask():
                return self._reveal(request, numbers)
        raise Refused(f"{request.kind} is no stage of secure aggregation")

    # -------------------------------------------------------------------------- advertise keys

    def _advertise(self, request: Advertise, turn: Turn, numbers: list[int]) -> Keys:
        parties = {number: Party.fresh(number, self._random) for number in numbers}
        self._session = session = Session(turn.round, request.purpose, parties)
        signatures = [
            self._identities[n].sign(
                "advertise", *self._said(session, n, p.mask_pair.public, p.box_pair.public)
            )
            for n, p in parties.items()
        ]
        return Keys(
            mask_key=from_bytes([p.mask_pair.public for p in parties.values()]),
            box_key=from_bytes([p.box_pair.public for p in parties.values()]),
            signature=from_bytes(signatures),
        )

    def _said(
        self, session: Session, client: int, mask_key: bytes, box_key: bytes
    ) -> tuple[Item, ...]:
        return advertised(self._config, session.round, session.purpose, client, mask_key, box_key)

    # ------------------------------------------------------------------------------ share keys

    def _share(self, request: Roster, numbers: list[int]) -> Shares:
        session = self._current()
        self._accept_roster(session, request, numbers)
        rows, commitments = [], []
        for number in numbers:
            rows.append(from_bytes(session.seal_shares(number, self._random)))
            seed, place = session.parties[number].seed, session.places[number]
            commitments.append(shamir.commitment(seed, session.id, place))
        return Shares(boxes=torch.stack(rows), commitment=from_bytes(commitments))

    def _accept_roster(self, session: Session, request: Roster, numbers: list[int]) -> None:
        clients = tuple(request.clients.tolist())
        self._check_roster(session, clients, numbers)
        self._check_keys(session, clients, request)
        session.model_hash = to_bytes(request.model_hash[None])[0]
        items = roster_items([self._roster[c] for c in clients], request)
        id = derive.session_id(items, self._config, session.model_hash)
        parameters = choose(len(clients), self._settings.threat)
        session.seat(
            id,
            MaskGraph.drawn(parameters, graph_seed(id, request)),
            dict(zip(clients, to_bytes(request.mask_keys), strict=True)),
            dict(zip(clients, to_bytes(request.box_keys), strict=True)),
        )

    def _check_roster(self, session: Session, clients: tuple[int, ...], numbers: list[int]) -> None:
        if session.id:
            raise Refused("a second roster in one session")
        if len(set(clients)) != len(clients) or list(clients) != sorted(clients):
            raise Refused("the roster names a client twice or out of order")
        if not set(numbers) <= set(clients):
            raise Refused("the roster leaves out a client that it was sent to")
        if not all(0 <= c < len(self._roster) for c in clients):
            raise Refused("the roster names a client that nobody knows")
        if len(clients) < self._settings.min_clients:
            raise Refused(f"a cohort of {len(clients)}, under {self._settings.min_clients}")

    def _check_keys(self, session: Session, clients: tuple[int, ...], request: Roster) -> None:
        """Everybody signed its keys, and this host's clients find their own."""
        columns = (request.mask_keys, request.box_keys, request.signatures)
        rows = zip(clients, *(to_bytes(column) for column in columns), strict=True)
        for client, mask_key, box_key, signature in rows:
            said = self._said(session, client, mask_key, box_key)
            verify(self._roster[client], signature, "advertise", *said)
            own = session.parties.get(client)
            if own is not None and own.mask_pair.public != mask_key:
                raise Refused(f"the roster has another key for client {client} than its own")

    # ------------------------------------------------------------------------- deliver shares

    def _open(self, request: Deliver, numbers: list[int]) -> Ready:
        session = self._current()
        sharers = tuple(request.sharers.tolist())
        if session.sharers or not session.id:
            raise Refused("shares were delivered twice, or before the roster")
        if not set(sharers) <= set(session.clients) or not set(numbers) <= set(sharers):
            raise Refused("the sharers are not of this session, or leave out the receiver")
        if len(set(sharers)) != len(sharers):
            raise Refused("a sharer is named twice")
        near = session.fewest_around(sharers, numbers)
        if len(sharers) < self._settings.min_clients or near < session.graph.parameters.threshold:
            raise Refused(f"only {near} clients shared their keys")
        session.sharers = sharers
        opened = [session.open_boxes(n, request.boxes[i]) for i, n in enumerate(numbers)]
        return Ready(opened=torch.tensor(opened))

    # -------------------------------------------------------------------------- masked input

    def check_request(self, request_hash: bytes) -> None:
        """The request must be the one that the session id was made with."""
        session = self._current()
        with self._over_when_refused():
            if not session.sharers or session.model_hash != request_hash:
                raise Refused("the request is not the one that this session was made for")
        session.answered = True

    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Put every client's pair masks and self mask on its row, in place."""
        session = self._current()
        with self._over_when_refused():
            self._check_rows(session, numbers, context)
        if context.recipients:
            session.pads.put(rows, numbers, context)
        apply_row_masks(rows, session.row_masks(numbers, context))

    def _check_rows(self, session: Session, numbers: list[int], context: MaskContext) -> None:
        """A row of a client outside the session, or named twice, would leave without a mask."""
        if len(set(numbers)) != len(numbers) or not (
            set(numbers) <= set(session.sharers) & session.parties.keys()
        ):
            raise Refused("asked to mask for a client twice, or for one outside the session")
        if context.message != session.purpose or context.round != session.round:
            raise Refused(f"this session masks {session.purpose}, not {context.message}")
        if context.recipients not in (0, len(self._roster)):
            raise Refused(f"{context.recipients} recipients, wanted all {len(self._roster)}")
        session.contexts.claim(context)

    def open(self, totals: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Take the survivors' pads off what the server passed on to these clients, in place.

        A client that was away when the survivors were named knows no pads to take off: it has
        dropped out of this round.
        """
        session = self._session
        if session is None or not set(numbers) <= set(session.openers):
            raise AwayAtUnmasking("the session's survivors were not named to this client")
        if context.message != session.purpose or context.round != session.round:
            raise Refused(f"this session masks {session.purpose}, not {context.message}")
        session.pads.take(totals, numbers, session.survivors, context)

    # ------------------------------------------------------------------- consistency, unmask

    def _agree(self, request: Survivors, numbers: list[int]) -> Agreed:
        session = self._current()
        survivors = tuple(request.clients.tolist())
        if session.agreed is not None:
            raise Refused("asked twice to agree on the survivors")
        self._check_survivors(session, survivors, numbers)
        session.agreed = survivors
        said = survivors_statement(session.id, session.sharers, survivors)
        return Agreed(
            signature=from_bytes([self._identities[n].sign("survivors", *said) for n in numbers])
        )

    def _check_survivors(
        self, session: Session, survivors: tuple[int, ...], numbers: list[int]
    ) -> None:
        if not session.answered:
            raise Refused("asked about survivors before the masked reply")
        if len(set(survivors)) != len(survivors) or not set(survivors) <= set(session.sharers):
            raise Refused("the survivors name a client twice, or one that shared no keys")
        if not set(numbers) <= set(survivors):
            raise Refused("a client that replied is not among the survivors")
        least = max(fewest(session.graph.parameters, self._settings.threat), self._least)
        if len(survivors) < least:
            raise Refused(f"{len(survivors)} survivors, under the {least} that are needed")

    def _reveal(self, request: Unmask, numbers: list[int]) -> Revealed:
        session = self._current()
        survivors, dropped = request.survivors.tolist(), request.dropped.tolist()
        if session.unmasked:
            raise Refused("a second unmask request in one session")
        if set(survivors) & set(dropped):
            raise Refused("a client is listed both as alive and as dropped")
        if set(survivors) | set(dropped) != set(session.sharers):
            raise Refused("survivors and dropped are not the clients that shared their keys")
        self._check_survivors(session, tuple(survivors), numbers)
        if self._settings.malicious:
            self._check_agreement(session, tuple(survivors), request, numbers)
        session.unmasked = True
        session.survivors, session.openers = tuple(survivors), tuple(numbers)
        alive = {session.places[n] for n in survivors}
        rows = [session.shares_to_reveal(n, alive) for n in numbers]
        return Revealed(
            shares=torch.stack([shares for shares, _ in rows]),
            which=torch.stack([which for _, which in rows]),
        )

    def _check_agreement(
        self, session: Session, survivors: tuple[int, ...], request: Unmask, numbers: list[int]
    ) -> None:
        """Enough survivors must have been told the same, before any share goes out."""
        signers = request.signers.tolist()
        if session.agreed != survivors or len(set(signers)) != len(signers):
            raise Refused("the survivors are not those that were agreed on")
        if not set(signers) <= set(survivors):
            raise Refused("a signature by a client that is no survivor")
        said = survivors_statement(session.id, session.sharers, survivors)
        for signer, signature in zip(signers, to_bytes(request.signatures), strict=True):
            verify(self._roster[signer], signature, "survivors", *said)
        needed = session.graph.parameters.threshold
        near = session.fewest_around(signers, numbers)
        if near < needed:
            raise Refused(f"{near} signatures on the survivors, under {needed}")

    def _current(self) -> Session:
        if self._session is None:
            raise Refused("no session is open")
        return self._session
