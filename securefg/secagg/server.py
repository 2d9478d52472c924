"""The server's side of secure aggregation: it drives the stages and gets the sum, nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from securefg.foundation.errors import RoundAborted
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg import derive
from securefg.secagg.dealt import Dealt, Secrets
from securefg.secagg.derive import MaskContext
from securefg.secagg.disputes import Court
from securefg.secagg.encoding import Item
from securefg.secagg.errors import AskedBefore, BadKey, BadSignature
from securefg.secagg.graph import MaskGraph, choose_parameters, fewest_clients, is_always_complete
from securefg.secagg.hybrid import check_key
from securefg.secagg.keys import FORMAT, verify
from securefg.secagg.masks import Mask, apply_masks
from securefg.secagg.messages import (
    Advertise,
    Again,
    Agreed,
    Keys,
    Ready,
    Revealed,
    Roster,
    Shares,
    Survivors,
    Unmask,
)
from securefg.secagg.odds import Odds, Pair
from securefg.secagg.ring import Ring, RingArray, from_bytes, to_bytes
from securefg.secagg.seats import Setup, has_pads
from securefg.secagg.statements import (
    graph_seed,
    key_statement,
    request_hash,
    roster_items,
    survivors_statement,
)
from securefg.settings.secagg import SecureAggregationSettings

Exchange = Callable[[Message, type[Any], Clients | None], "Any"]
"""Sends a request to clients and gathers their replies: `Federation.exchange`."""

Tell = Callable[[int, str], None]
"""Takes a client's number and what it did."""


@dataclass(frozen=True)
class Opened:
    """The reply of every survivor, still masked, and what takes the masks off their sum."""

    replies: Any
    survivors: tuple[int, ...]
    unmasking: Callable[[MaskContext], list[Mask]]

    def total(self, field: str, context: MaskContext) -> RingArray:
        """The survivors' sum in the ring: masked rows added up, then all masks taken off."""
        ring = Ring(context.modulus_bits)
        rows = getattr(self.replies.message, field).numpy().view(ring.dtype)
        total: RingArray = rows.reshape(len(rows), -1).sum(0, dtype=ring.dtype)
        apply_masks(total, self.unmasking(context))
        return total


class Aggregator:
    """Runs one session per ask. Whoever sends a bad key, box, signature or share is named, and is
    asked no more; the session goes on while enough are left.

    blame    takes a client's number and what it sent
    suspect  takes a client's number and what it kept back; `SILENCES` of these name it
    cohorts  how many clients are to be asked for each kind of message
    """

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Sequence[bytes],
        exchange: Exchange,
        least_survivors: Mapping[str, int] | None = None,
        cohorts: Mapping[str, int] | None = None,
        blame: Tell = lambda client, reason: None,
        suspect: Tell = lambda client, reason: None,
    ) -> None:
        self._settings, self._config = settings, config_hash.encode()
        self._threat = settings.threat_among(len(identities))
        self._identities, self._exchange = identities, exchange
        self._least_survivors, self._cohorts = least_survivors or {}, cohorts or {}
        self._tell, self._round, self._least = blame, 0, settings.min_clients
        self.blamed: dict[int, str] = {}
        self._setup: Setup | None = None
        self._odds = Odds(self.blamed)
        self._court = Court(
            settings.keys, identities, self._ask_clients, self._blame_client, suspect
        )

    @property
    def silences(self) -> Counter[int]:
        """How often each client kept its key closed in a dispute."""
        return self._court.silences

    def collect(
        self, request: Message, reply: type[Message], clients: Clients | None, round: int
    ) -> Opened:
        """All stages, from fresh keys, or those of the last set-up, to the shares that open the
        sum."""
        self._round = round
        planned = self._threat.least_cohort(self._cohorts.get(reply.kind, 0))
        noisy = self._least_survivors.get(reply.kind, 0)
        self._least = max(self._settings.min_clients, noisy, planned)
        try:
            return self._collect_sum(request, reply, clients)
        except BaseException:
            self._setup = None  # whatever went wrong, nobody need have the same of it
            raise

    def _collect_sum(
        self, request: Message, reply: type[Message], clients: Clients | None
    ) -> Opened:
        setup, dealt, ready = self._agree_on_masks(request, reply, clients)
        session = self._session_id(setup, request, reply)
        replies = self._run_step(request, reply, ready, setup.graph)
        survivors = replies.clients.numbers()
        revealed = self._ask_for_shares(survivors, dealt.sharers, setup.graph, session)
        about = (setup.roster, setup.graph, session, dealt, survivors, revealed)
        secrets = Secrets(*about, self._blame_client, self._odds.note_missing)
        return Opened(replies, tuple(survivors), secrets.make_unmasking())

    def _agree_on_masks(
        self, request: Message, reply: type[Message], clients: Clients | None
    ) -> tuple[Setup, Dealt, Clients]:
        """All stages before the request. A set-up in which tags differ ends, and another begins
        without the liars; nobody uploads before all tags are alike."""
        out: set[int] = set()
        while True:
            asked = self._trusted_clients(clients, out)
            shares = self._taken_up(request, reply, tuple(asked))
            if shares is None:
                everybody = clients is None and not self.blamed and not out
                keys = self._ask_for_keys(reply, None if everybody else Clients.of(asked))
                self._setup = Setup(*self._gather_keys(keys, request, reply), tuple(asked))
                members = Clients.of(self._setup.members)
                shares = self._run_step(self._setup.roster, Shares, members, self._setup.graph)
            setup = self._setup
            assert setup is not None
            setup.someone_away |= shares.count < len(setup.members)
            dealt = Dealt(shares, setup.members, setup.graph, has_pads(reply))
            ready = self._deliver_boxes(dealt, setup.graph)
            odd = dealt.at_odds()
            if not odd:
                setup.linked = [n for n in setup.linked if n in set(dealt.sharers)]
                return setup, dealt, ready
            out |= self._settle_disputes(
                odd, dealt, setup, self._session_id(setup, request, reply), reply
            )
            self._setup = None

    def _trusted_clients(self, clients: Clients | None, out: Collection[int]) -> list[int]:
        asked = range(len(self._identities)) if clients is None else clients.numbers()
        return [n for n in asked if n not in self.blamed and n not in out]

    def _settle_disputes(
        self,
        odd: list[Pair],
        dealt: Dealt,
        setup: Setup,
        session: bytes,
        reply: type[Message],
    ) -> set[int]:
        """Who stays out of the next set-up.

        Keys are opened in the first session of a set-up alone: of a later one the chains are gone.
        Where keys can be opened, two liars must not have their victim named without evidence: there
        a client is named that is at odds with half of the clients.
        """
        planned = self._cohorts.get(reply.kind) or len(self._identities)
        can_open, most = is_always_complete(planned), self._most_liars(setup.graph)
        if setup.ordinal:
            half = (setup.graph.parameters.num_clients - 1) // 2
            return self._named_by_many(odd, max(most, half) if can_open else most)
        if not can_open:
            named = self._named_by_many(odd, most)
            return named | self._odds.part_pairs(pair for pair in odd if not named & set(pair))
        keys = dict(zip(setup.members, to_bytes(setup.roster.mask_keys), strict=True))
        about = (self._setup_id(setup.roster), session)
        return self._court.settle(odd, dealt, keys, setup.graph, about)

    def _named_by_many(self, odd: list[Pair], most_liars: int) -> set[int]:
        """Blame those who were at odds with more clients than there can be liars."""
        self._odds.note(odd)
        clients = {client for pair in odd for client in pair}
        liars = self._odds.clients_at_odds(clients, most_liars)
        for client in liars:
            self._blame_client(client, "does not agree with its neighbours on their masks")
        return set(liars)

    def _taken_up(self, request: Message, reply: type[Message], asked: tuple[int, ...]) -> Any:
        """The shares of another session of the last set-up, or None where a new one is wanted."""
        setup = self._setup
        if setup is None or not setup.can_serve(asked, reply):
            return None
        setup.ordinal += 1
        again = Again(
            purpose=reply.kind,
            setup=from_bytes([self._setup_id(setup.roster)])[0],
            ordinal=setup.ordinal,
            model_hash=from_bytes([request_hash(request)])[0],
        )
        shares = self._asked_anew(again, Shares, Clients.of(setup.linked))
        everybody = shares.count == len(setup.members)
        enough = shares.count >= max(
            fewest_clients(setup.graph.parameters, self._threat), self._least
        )
        return shares if everybody or (enough and not setup.graph.parameters.complete) else None

    def _setup_id(self, roster: Roster) -> bytes:
        known = [self._identities[n] for n in roster.clients.tolist()]
        items = roster_items(known, roster)
        return derive.setup_id(items, self._config, self._settings.keys)

    def _session_id(self, setup: Setup, request: Message, reply: type[Message]) -> bytes:
        about = (setup.ordinal, self._round, reply.kind, request_hash(request))
        return derive.session_id(self._setup_id(setup.roster), *about)

    def _blame_client(self, client: int, reason: str) -> None:
        if client not in self.blamed:
            self.blamed[client] = reason
            self._tell(client, reason)

    def _gather_keys(
        self, keys: Any, request: Message, reply: type[Message]
    ) -> tuple[Roster, MaskGraph]:
        good = [
            row
            for row, n in enumerate(keys.clients.numbers())
            if self._is_good(keys, row, n, reply.kind)
        ]
        self._require_count(len(good), self._least, "advertised keys")
        numbers = [keys.clients.numbers()[row] for row in good]
        roster = Roster(
            clients=torch.tensor(numbers),
            mask_keys=keys.message.mask_key[good],
            box_keys=keys.message.box_key[good],
            signatures=keys.message.signature[good],
            model_hash=from_bytes([request_hash(request)])[0],
            with_pads=has_pads(reply),
        )
        parameters = choose_parameters(len(numbers), self._threat)
        return roster, MaskGraph.drawn(parameters, graph_seed(self._setup_id(roster), roster))

    def _ask_for_keys(self, reply: type[Message], clients: Clients | None) -> Any:
        """Fresh keys of these clients."""
        keys = self._asked_anew(Advertise(purpose=reply.kind, version=FORMAT), Keys, clients)
        self._require_count(keys.count, self._least, "advertised keys")
        return keys

    def _ask_clients(self, request: Message, reply: type[Message], clients: Clients) -> Any:
        return self._exchange(request, reply, clients)

    def _asked_anew(self, request: Message, reply: type[Message], clients: Clients | None) -> Any:
        try:
            return self._exchange(request, reply, clients)
        except AskedBefore as refusal:
            raise RoundAborted(f"secure aggregation: {refusal}; nothing was unmasked") from refusal

    def _is_good(self, keys: Any, row: int, client: int, purpose: str) -> bool:
        """Keys that their owner signed, and that agree on something."""
        mask_key, box_key, signature = (
            to_bytes(column[row][None])[0]
            for column in (keys.message.mask_key, keys.message.box_key, keys.message.signature)
        )
        said = key_statement(self._config, self._round, purpose, client, mask_key, box_key)
        try:
            verify(self._identities[client], signature, "advertise", *said)
            for key in (mask_key, box_key):
                check_key(key, self._settings.keys)
        except (BadSignature, BadKey) as error:
            self._blame_client(client, f"sent a bad key: {error}")
            return False
        return True

    def _run_step(
        self,
        request: Message,
        reply: type[Message],
        clients: Clients,
        graph: MaskGraph,
        last: bool = False,
    ) -> Any:
        """One exchange, after which enough clients must be left; in the last stages, when the
        replies are in, no more than the threshold."""
        replies = self._exchange(request, reply, clients)
        parameters = graph.parameters
        least = parameters.threshold if last else fewest_clients(parameters, self._threat)
        self._require_count(
            replies.count,
            max(least, self._settings.min_clients if last else self._least),
            f"answered {request.kind}",
        )
        return replies

    def _most_liars(self, graph: MaskGraph) -> int:
        """As many as may collude; and never none, or one client's word would cast another out."""
        return max(self._threat.num_corrupt(graph.parameters.num_clients), 1)

    def _deliver_boxes(self, dealt: Dealt, graph: MaskGraph) -> Clients:
        """Carry every sealed share to its holder; the server cannot read any.

        More complaints than there can be liars prove a sender wrong, and it is left out. A box that
        fewer complain of is one share less. If that share was missing in the end, the two take
        turns from the next complaint on (`Odds`). Also left out is a client that falls silent
        before it sent the roots of its masks: nobody could open them.
        """
        while True:
            request = dealt.make_delivery()
            ready = self._run_step(request, Ready, Clients.of(dealt.sharers), graph)
            dealt.note_pairs(ready)
            most = self._most_liars(graph)
            complaints = dealt.list_complaints(ready)
            counts = Counter(sender for _, sender in complaints)
            wrong = {c for c, count in counts.items() if count > most}
            wrong.update(self._odds.clients_at_odds(counts, most))
            gone = wrong.union(dealt.without_roots())
            gone |= self._odds.part_pairs(
                pair for pair in complaints if self._odds.has_missed(*pair) and not gone & set(pair)
            )
            if not gone:
                clients: Clients = ready.clients
                return clients
            for client in sorted(wrong):
                self._blame_client(client, "sent boxes that do not hold the shares that it named")
            dealt.leave_out(gone)

    def _ask_for_shares(
        self, survivors: list[int], sharers: list[int], graph: MaskGraph, session: bytes
    ) -> Any:
        alive, signers, signatures = Clients.of(survivors), torch.empty(0), torch.empty(0, 64)
        if self._settings.malicious:
            request = Survivors(clients=torch.tensor(survivors))
            agreed = self._run_step(request, Agreed, alive, graph, last=True)
            signed_statement = survivors_statement(session, tuple(sharers), tuple(survivors))
            rows = [
                row
                for row, n in enumerate(agreed.clients.numbers())
                if self._is_signed(
                    n, to_bytes(agreed.message.signature[row][None])[0], signed_statement
                )
            ]
            numbers = [agreed.clients.numbers()[row] for row in rows]
            self._require_count(len(numbers), self._least_signers(graph), "signed the survivors")
            signers, signatures = torch.tensor(numbers), agreed.message.signature[rows]
            alive = Clients.of(numbers)
        unmask = Unmask(
            survivors=torch.tensor(survivors),
            dropped=torch.tensor(
                [n for n in sharers if n not in set(survivors)], dtype=torch.int64
            ),
            signers=signers.long(),
            signatures=signatures.to(torch.uint8),
        )
        return self._run_step(unmask, Revealed, alive, graph, last=True)

    def _least_signers(self, graph: MaskGraph) -> int:
        """As clients demand it (`Rules.check_signers`): all that must be in a sum, if they check
        all signatures, else the threshold."""
        least = max(graph.parameters.threshold, self._settings.min_clients)
        if not graph.parameters.complete:
            return least
        return max(least, fewest_clients(graph.parameters, self._threat), self._least)

    def _is_signed(self, client: int, signature: bytes, said: tuple[Item, ...]) -> bool:
        try:
            verify(self._identities[client], signature, "survivors", *said)
        except BadSignature:
            self._blame_client(client, "sent a bad signature on the survivors")
            return False
        return True

    def _require_count(self, count: int, least: int, what: str) -> None:
        if count < least:
            raise RoundAborted(
                f"secure aggregation: {count} clients {what}, {least} are needed; nothing was "
                "unmasked"
            )
