"""The requests that the plan allows a server: whose, when, how often, and how large.

The server of a federation may ask for anything that its job's config could ask for. Everything
here is counted by the site itself, from its own plan and its own books, over all submissions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from securefg.foundation.errors import ProtocolError
from securefg.methods.registry import get_method
from securefg.privacy.ledger import Ledger, Release
from securefg.protocol import codec
from securefg.protocol.codec import Body, Clients, Envelope
from securefg.secagg.forms import STAGES
from securefg.secagg.messages import REDO
from securefg.site.job import Job
from securefg.site.policy import JobRefused

STEPS_PER_ROUND = 200  # stages of secure aggregation included; shipped methods take 8 at most
LEAST_ROOM = 64 * 1024**2


class Terms:
    """The terms of one submission. Raises `ProtocolError` or `JobRefused`; never answers False.

    before       what this run has released here in earlier submissions
    submissions  how many of them there can be, this one included: each may release what the plan
                 has in it, for a run that goes on from a checkpoint does some rounds again
    """

    def __init__(
        self, job: Job, own_hosts: Mapping[str, Clients], before: Ledger | None, submissions: int
    ) -> None:
        config = job.parsed()
        self._own, self._method = own_hosts, get_method(config.method.name)
        self._rounds = config.training.rounds
        sizes = job.sizes
        self._largest = max(self._rounds, *filter(None, vars(sizes).values()))
        widest = sizes.num_features + sizes.num_classes + sizes.num_clients
        planned = job.planned()
        most_sent = max((release.dim for release in planned), default=0)
        most_clients = max(map(len, own_hosts.values()))
        self._room = LEAST_ROOM + 64 * sizes.num_nodes * widest + 16 * most_sent * most_clients
        # What never changes leaves once in a census, which is planned for no round.
        self._most = {r.name: max(r.count, int(r.declaration.constant)) for r in planned}
        self._submissions = submissions
        self._last: dict[str, tuple[int, int]] = {}
        self._answered: dict[str, int] = {}
        self._now: Counter[tuple[str, int]] = Counter()
        self._ever = _field_counts(before)

    def check(self, host: str, framed: Body) -> Envelope:
        """A request, before anything of it is decoded but its envelope."""
        if len(framed) > self._room:
            raise ProtocolError(f"a request of {len(framed)} bytes; the plan has {self._room}")
        envelope = codec.unframe(framed)
        if envelope.receiver != host:
            raise ProtocolError(f"a message to {envelope.receiver!r:.60} came to {host}")
        self._check_turn(host, envelope)
        if not envelope.clients.ranges or not envelope.clients.within(self._own[host]):
            raise ProtocolError(
                f"asked for the clients {str(envelope.clients)[:60]}; {host} has {self._own[host]}"
            )
        self._check_sizes(envelope)
        return envelope

    def _check_turn(self, host: str, envelope: Envelope) -> None:
        turn = (envelope.round, envelope.step)
        if not all(type(number) is int for number in turn):
            raise ProtocolError(f"round {turn[0]!r:.30}, step {turn[1]!r:.30}: wanted numbers")
        if not (0 <= turn[0] <= self._rounds and 0 < turn[1] <= STEPS_PER_ROUND):
            raise ProtocolError(
                f"round {turn[0]}, step {turn[1]}; the plan has {self._rounds} rounds"
            )
        if turn <= self._last.get(host, (-1, 0)):
            raise ProtocolError(f"round {turn[0]}, step {turn[1]} was answered before")
        self._last[host] = turn

    def _check_sizes(self, envelope: Envelope) -> None:
        """Numbers in a request say how large something is, or which round it is."""
        stage = STAGES.get(envelope.kind)
        kind = envelope.kind.removeprefix(REDO)
        found = codec.read(envelope.body, stage or self._method.message(kind))
        for name, value in found.items():
            if type(value) is int and not 0 <= value <= self._largest:
                raise ProtocolError(
                    f"{envelope.kind}.{name} is {value}; the plan has {self._largest} at most"
                )

    def check_release(self, framed: Body) -> None:
        """A model to be scored, before anything of it is decoded."""
        if len(framed) > self._room:
            raise ProtocolError(f"a model of {len(framed)} bytes; the plan has {self._room}")

    def note_answer(self, host: str, round: int) -> None:
        """Note the round of a request that the host sees; a refused one is not noted."""
        self._answered[host] = round

    def round_of(self, host: str) -> int:
        """The round that the host last answered in."""
        return self._answered.get(host, 0)

    def count(self, releases: list[Release]) -> None:
        """Count what hosts are about to be asked for. Raise where the plan has less."""
        now, ever = self._now.copy(), self._ever.copy()
        for release in releases:
            name = release.mechanism.field
            for client in release.clients.numbers():
                now[name, client] += 1
                ever[name, client] += 1
            self._refuse_more(name, now, self._most.get(name, 0))
            self._refuse_more(name, ever, self._most.get(name, 0) * self._submissions)
        self._now, self._ever = now, ever

    def _refuse_more(self, name: str, counts: Counter[tuple[str, int]], most: int) -> None:
        worst = max((count for (field, _), count in counts.items() if field == name), default=0)
        if worst > most:
            raise JobRefused(f"{name} would leave a client {worst} times; the plan has {most}")


def _field_counts(ledger: Ledger | None) -> Counter[tuple[str, int]]:
    """Return how often each field of each client has left, by the ledger."""
    field_counts: Counter[tuple[str, int]] = Counter()
    if ledger is not None:
        for mechanism in ledger.mechanisms:
            counts = ledger.counts(mechanism)
            for client in np.flatnonzero(counts).tolist():
                field_counts[mechanism.field, client] += int(counts[client])
    return field_counts
