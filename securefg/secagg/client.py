"""The clients' side of secure aggregation, for all clients of one host at once.

A client refuses whatever would let a server open a single upload: a second session for what it
uploaded (it remembers, see `memory`), a roster without it, with strangers or with fewer than were
planned, a cohort that the colluders among all clients could break, another request than the session
was made for, survivors and dropped that overlap, itself among the dropped, fewer survivors than the
threshold, a second unmask. Every refusal raises; nothing of the session leaves after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.secagg import derive
from securefg.secagg.dealing import leave_out, make_shares, open_delivery
from securefg.secagg.derive import MaskContext
from securefg.secagg.encoding import Item
from securefg.secagg.errors import AwayAtUnmasking, Refused, SetupLost
from securefg.secagg.graph import MaskGraph, choose_parameters
from securefg.secagg.keys import FORMAT, Identity, verify
from securefg.secagg.links import KeyPairs, box_partners
from securefg.secagg.masking_clients import MaskingClients
from securefg.secagg.masks import apply_row_masks
from securefg.secagg.messages import (
    Advertise,
    Again,
    Agreed,
    Deliver,
    Dispute,
    Keys,
    Opening,
    Ready,
    Revealed,
    Roster,
    Survivors,
    Unmask,
)
from securefg.secagg.openings import opened_secrets
from securefg.secagg.ring import RingArray, from_bytes, to_bytes
from securefg.secagg.rules import Rules
from securefg.secagg.seats import SESSIONS, Seats
from securefg.secagg.secret import SYSTEM_RANDOM, RandomBytes
from securefg.secagg.session import Party, Session
from securefg.secagg.statements import (
    graph_seed,
    key_statement,
    roster_items,
    survivors_statement,
)
from securefg.settings.secagg import SecureAggregationSettings


class SecureClients(MaskingClients):
    """All clients of a host, with their long-lived identities and the roster of everybody's.

    cohorts      how many clients are to be asked for each kind of message
    rounds       in how many rounds of the run each kind may be asked for
    memory_file  where the host keeps what its clients took part in
    """

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Mapping[int, Identity],
        roster: Sequence[bytes],
        least_survivors: Mapping[str, int] | None = None,
        random_bytes: RandomBytes = SYSTEM_RANDOM,
        cohorts: Mapping[str, int] | None = None,
        memory_file: Path | None = None,
        rounds: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(
            settings,
            config_hash,
            identities,
            roster,
            Rules(settings, len(roster), least_survivors or {}, cohorts or {}, rounds or {}),
            random_bytes,
            memory_file,
        )
        self._session: Session | None = None
        self._seats: Seats | None = None

    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer one stage for `turn.clients`."""
        with self._over_when_refused():
            return self._answer_stage(request, turn)

    @contextmanager
    def _over_when_refused(self) -> Iterator[None]:
        """Whatever goes wrong ends the session, and its set-up: nothing of it leaves afterwards."""
        try:
            yield
        except Exception:
            self._session = self._seats = None
            raise

    def _answer_stage(self, request: Message, turn: Turn) -> Message:
        numbers = turn.clients.numbers()
        match request:
            case Advertise():
                return self._advertise_keys(request, turn, numbers)
            case Roster():
                self._accept_roster(self._current_session(), request, numbers)
                return make_shares(self._current_session(), numbers, self._random)
            case Again():
                return make_shares(self._take_up(request, turn, numbers), numbers, self._random)
            case Deliver():
                return self._open_boxes(request, numbers)
            case Dispute():
                return self._open_keys(request, numbers)
            case Survivors():
                return self._agree_survivors(request, numbers)
            case Unmask():
                return self._reveal_shares(request, numbers)
        raise Refused(f"{request.kind} is no stage of secure aggregation")

    # -------------------------------------------------------------------------- advertise keys

    def _advertise_keys(self, request: Advertise, turn: Turn, numbers: list[int]) -> Keys:
        if request.version != FORMAT:
            raise Refused(f"Advertise.version: found {request.version}; expected {FORMAT}")
        self._session = session = self._fresh_session(request.purpose, turn, numbers)
        self._seats = None
        for number in numbers:
            session.pairs[number] = KeyPairs.fresh(self._settings.keys, self._random)
        pairs = session.pairs.items()
        signatures = [
            self._identities[n].sign(
                "advertise",
                *self._advertised_items(session, n, pair.masks.public, pair.boxes.public),
            )
            for n, pair in pairs
        ]
        return Keys(
            mask_key=from_bytes([pair.masks.public for _, pair in pairs]),
            box_key=from_bytes([pair.boxes.public for _, pair in pairs]),
            signature=from_bytes(signatures),
        )

    def _fresh_session(self, purpose: str, turn: Turn, numbers: list[int]) -> Session:
        """Fresh secrets, for what these clients did not take part in before."""
        self.memory.refuse_repeat(turn.round, purpose, numbers, self._rules.one_opens(purpose))
        self.memory.refuse_more(turn.round, purpose, numbers, self._rules.rounds.get(purpose))
        parties = {number: Party.fresh(number, self._random) for number in numbers}
        return Session(turn.round, purpose, parties)

    def _take_up(self, request: Again, turn: Turn, numbers: list[int]) -> Session:
        """Another session of the set-up that this host has; one that it lost is no offence."""
        seats = self._seats
        if seats is None or to_bytes(request.setup[None])[0] != seats.id or not seats.is_linked:
            raise SetupLost("this client was not set up so, or restarted since")
        if not set(numbers) <= seats.own:
            raise Refused("the set-up has no such client here")
        if not seats.ordinal <= request.ordinal < SESSIONS:
            raise Refused(
                f"session {request.ordinal} of a set-up; wanted one from {seats.ordinal} on, "
                f"under {SESSIONS}"
            )
        self._session = session = self._fresh_session(request.purpose, turn, numbers)
        self._rules.check_cohort(session.purpose, len(seats.clients))
        seats.forget_keys()
        session.begin(seats, request.ordinal, to_bytes(request.model_hash[None])[0])
        return session

    def _advertised_items(
        self, session: Session, client: int, mask_key: bytes, box_key: bytes
    ) -> tuple[Item, ...]:
        return key_statement(
            self._config, session.round, session.purpose, client, mask_key, box_key
        )

    # ------------------------------------------------------------------------------ share keys

    def _accept_roster(self, session: Session, request: Roster, numbers: list[int]) -> None:
        clients = tuple(request.clients.tolist())
        self._rules.check_roster(session, clients, numbers)
        items = roster_items([self._roster[c] for c in clients], request)
        id = derive.setup_id(items, self._config, self._settings.keys)
        seats = Seats(
            id,
            MaskGraph.drawn(
                choose_parameters(len(clients), self._rules.threat), graph_seed(id, request)
            ),
            clients,
            dict(zip(clients, to_bytes(request.mask_keys), strict=True)),
            dict(zip(clients, to_bytes(request.box_keys), strict=True)),
            dict(zip(clients, to_bytes(request.signatures), strict=True)),
            self._settings.keys,
            request.with_pads,
        )
        own = {seats.places[n] for n in numbers}
        around = {p for n in own for p in box_partners(seats.graph, n, seats.with_pads)}
        self._check_keys(session, seats, own | around)
        seats.start_linking({n: session.pairs[n] for n in numbers})
        session.begin(seats, 0, to_bytes(request.model_hash[None])[0])
        self._seats = seats

    def _check_keys(self, session: Session, seats: Seats, places: Collection[int]) -> None:
        """Those at these places signed their keys, and this host's clients find their own.

        For masks the neighbours are enough: every honest client that answers has another within
        k/2 places on either side (`graph_parameters`), so that every place of the ring is beside
        one who checks it. Pads for recipients go to everybody, and then everybody is checked.
        """
        for place in sorted(set(places) - seats.checked):
            client = seats.clients[place]
            keys = seats.mask_keys[client], seats.box_keys[client]
            said = self._advertised_items(session, client, *keys)
            verify(self._roster[client], seats.signatures[client], "advertise", *said)
            own = session.pairs.get(client)
            if own is not None and (own.masks.public, own.boxes.public) != keys:
                raise Refused(f"the roster has another key for client {client} than its own")
            seats.checked.add(place)

    # ------------------------------------------------------------------------- deliver shares

    def _open_boxes(self, request: Deliver, numbers: list[int]) -> Ready:
        session = self._current_session()
        sharers = tuple(request.sharers.tolist())
        self._rules.check_sharers(session, sharers, numbers)
        if session.sharers:
            return leave_out(session, sharers, numbers)
        self._rules.check_delivery(session, request, numbers)
        session.sharers = sharers
        return open_delivery(session, request, numbers, self._identities)

    def _open_keys(self, request: Dispute, numbers: list[int]) -> Opening:
        """Open mask keys in a dispute. The session and its set-up end here, but for the other
        clients of this host, who may still open theirs."""
        session, about = (
            self._session or self._current_session(),
            (self._roster, self.memory, self._rules),
        )
        secrets = opened_secrets(session, request, numbers, *about)
        session.opened.update(numbers)
        self._seats = None
        setup, opened = session.seats.id, zip(numbers, secrets, strict=True)
        signatures = [self._identities[n].sign("opening", setup, n, s) for n, s in opened]
        return Opening(secret=from_bytes(secrets), signature=from_bytes(signatures))

    # -------------------------------------------------------------------------- masked input

    def check_reply(self, purpose: str, turn: Turn, constants: Sequence[str]) -> None:
        """Refuse what the open session does not mask, before anything is computed for it.

        purpose    the kind of the reply that the request brings
        constants  fields of the reply that never change and would leave without noise
        """
        session, numbers = self._current_session(), turn.clients.numbers()
        with self._over_when_refused():
            self._rules.check_purpose(session, numbers, purpose, turn.round)
            for field in constants:
                self.memory.refuse_constant(session.round, f"{purpose}.{field}", numbers)

    def check_request(self, request_hash: bytes) -> None:
        """The request must be the one that the session id was made with. Its answer is noted before
        anything is computed for it."""
        session = self._current_session()
        with self._over_when_refused():
            if session.answered:
                raise Refused("a second request in one session")
            if not session.sharers or session.model_hash != request_hash:
                raise Refused("the request is not the one that this session was made for")
            own = sorted(session.parties.keys() & set(session.sharers))
            if not session.links_all(session.sharers, own):
                raise Refused("a sharer's mask ciphertext was not confirmed by its sender")
            about = (session.round, session.purpose, own)
            self.memory.refuse_other_request(*about, request_hash)
            self.memory.refuse_opened(session.seats.id)
            cohort, setup = len(session.clients), session.seats.id
            self.memory.uploaded(*about, session.id, cohort, request_hash, setup)
        session.seats.forget_keys()
        session.answered = True

    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Put every client's pair masks and self mask on its row, in place."""
        session = self._current_session()
        with self._over_when_refused():
            self._check_rows(session, numbers, context)
        if context.recipients:
            with self._over_when_refused():
                session.pads.put_pads(rows, numbers, context)
        apply_row_masks(rows, session.row_masks(numbers, context))

    def _check_rows(self, session: Session, numbers: list[int], context: MaskContext) -> None:
        """A row of a client outside the session, or named twice, would leave without a mask; one
        before the request would not be remembered."""
        if not session.answered:
            raise Refused("a row was to be masked before its request")
        self._rules.check_purpose(session, numbers, context.message, context.round)
        if context.recipients not in (0, len(self._roster)):
            raise Refused(f"{context.recipients} recipients, wanted all {len(self._roster)}")
        session.contexts.claim(context)
        if context.constant:
            about = (session.round, session.purpose, context.field, session.id, numbers)
            self.memory.claim_constant(*about, len(session.clients))

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

    def _agree_survivors(self, request: Survivors, numbers: list[int]) -> Agreed:
        session = self._current_session()
        survivors = tuple(request.clients.tolist())
        if session.agreed is not None:
            raise Refused("asked twice to agree on the survivors")
        self._rules.check_survivors(session, survivors, numbers)
        self._remember_agreement(session, survivors, numbers)
        session.agreed = survivors
        said = survivors_statement(session.id, session.sharers, survivors)
        return Agreed(
            signature=from_bytes([self._identities[n].sign("survivors", *said) for n in numbers])
        )

    def _remember_agreement(
        self, session: Session, survivors: tuple[int, ...], numbers: list[int]
    ) -> None:
        about = (session.round, session.purpose, numbers, session.id)
        self.memory.agreed(*about, list(survivors))

    def _reveal_shares(self, request: Unmask, numbers: list[int]) -> Revealed:
        session = self._current_session()
        survivors, dropped = request.survivors.tolist(), request.dropped.tolist()
        if session.unmasked:
            raise Refused("a second unmask request in one session")
        if set(survivors) & set(dropped):
            raise Refused("a client is listed both as alive and as dropped")
        if set(survivors) | set(dropped) != set(session.sharers):
            raise Refused("survivors and dropped are not the clients that shared their keys")
        self._rules.check_survivors(session, tuple(survivors), numbers)
        if self.malicious:
            self._check_agreement(session, tuple(survivors), request, numbers)
        else:
            self._remember_agreement(session, tuple(survivors), numbers)
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
        signed_statement = survivors_statement(session.id, session.sharers, survivors)
        holders = {p for n in numbers for p in session.graph.holders(session.places[n])}
        for signer, signature in zip(signers, to_bytes(request.signatures), strict=True):
            if session.places[signer] in holders:  # nobody else's counts here
                verify(self._roster[signer], signature, "survivors", *signed_statement)
        needed = session.graph.parameters.threshold
        near = session.fewest_around(signers, numbers)
        if near < needed:
            raise Refused(f"{near} signatures on the survivors, under {needed}")
        self._rules.check_signers(session, signers)

    def _current_session(self) -> Session:
        if self._session is None or self._session.opened:
            raise Refused("no session is open")
        return self._session
