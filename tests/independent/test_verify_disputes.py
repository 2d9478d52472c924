"""The second implementation finds the same parameters and the same liars as the real session."""

from __future__ import annotations

from typing import Any

import pytest

from securefg.foundation.errors import ConfigError
from securefg.secagg.disputes import Court
from securefg.secagg.graph import choose_parameters
from securefg.secagg.messages import Dispute, Opening
from securefg.secagg.server import Aggregator
from securefg.settings.secagg import Threat
from tests.independent.test_verify_session import Watched, fields_of, rows_of
from tests.independent.verify_disputes import End, find_parameters, has_signed, judge, pairs_said
from tests.unit.secagg.session_world import Upload
from tests.unit.secagg.test_blame import lie_about_tag, others

THREATS = [(0.05, None), (0.0, 0.1), (0.2, 0.2), (0.33, 0.25), (0.1, 0.0)]


@pytest.mark.parametrize(("corrupt", "dropout"), THREATS)
def test_parameters_by_the_page_are_those_of_the_code(
    corrupt: float, dropout: float | None
) -> None:
    for n in (*range(3, 41), 64, 100, 333):
        for population in (n, 3 * n):
            try:
                chosen = choose_parameters(n, Threat(corrupt, dropout, population))
            except ConfigError:
                continue
            found = find_parameters(n, population, corrupt, dropout)
            assert found == (chosen.degree, chosen.threshold), (n, population)


def disputed(watched: Watched, liar: int, victim: int) -> tuple[bytes, bytes, dict[int, Any]]:
    """Hold a round with a lie; return set-up, session and what the server kept of the two."""
    kept: dict[str, Any] = {}
    settle = Court.settle

    def noted(court: Court, odd: Any, dealt: Any, keys: Any, graph: Any, about: Any) -> set[int]:
        kept.update(dealt=dealt, keys=keys, graph=graph, about=about)
        return settle(court, odd, dealt, keys, graph, about)

    lie_about_tag(watched.bed, liar, victim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Court, "settle", noted)
        watched.bed.sums()
    rows = {n: (kept["keys"][n], kept["dealt"].pairs[n]) for n in (liar, victim)}
    return (*kept["about"], rows)


@pytest.mark.parametrize("keys", ["hybrid", "classical"])
@pytest.mark.parametrize(("liar", "victim"), [(3, 1), (1, 3), (0, 4), (5, 0)])
def test_judge_by_the_page_names_the_liar_of_a_real_dispute(
    keys: str, liar: int, victim: int
) -> None:
    watched = Watched(6, f"dispute {liar} {victim}", keys=keys)
    setup, session, signed = disputed(watched, liar, victim)
    opened: dict[int, bytes] = {}
    for number, request, reply in watched.heard:
        if isinstance(request, Dispute) and isinstance(reply, Opening):
            secret, signature = (rows_of(x)[0] for x in (reply.secret, reply.signature))
            public = watched.verifier.clients[number].public
            assert rows_of(request.setup)[0] == setup
            assert has_signed(public, signature, "opening", setup, number, secret)
            opened[number] = secret
    assert sorted(opened) == sorted((liar, victim))
    ends = {}
    for accuser, peer in ((liar, victim), (victim, liar)):
        key, pairs = signed[accuser]
        public = watched.verifier.clients[accuser].public
        said = pairs_said(session, accuser, pairs.wrapped, pairs.sent, pairs.received)
        assert has_signed(public, pairs.signature, "pairs", *said)
        ahead = ahead_of(accuser, 6)
        ciphertext = b""
        if keys == "hybrid" and peer in ahead:
            ciphertext = pairs.sent[ahead.index(peer)]
        elif keys == "hybrid":
            behind = [p for p in range(6) if accuser in ahead_of(p, 6)]
            ciphertext = pairs.received[behind.index(peer)]
        tag = pairs.wrapped[peer][32:]
        ends[accuser] = End(accuser, accuser, key, tag, ciphertext, opened[accuser])
    sender, receiver = (liar, victim) if victim in ahead_of(liar, 6) else (victim, liar)
    about = (setup, session, keys == "hybrid", ends[sender], ends[receiver])
    assert judge(*about) == {liar} == set(watched.bed.aggregator.blamed)


def ahead_of(place: int, n: int) -> list[int]:
    """Section 4: n // 2 places on, one less for the upper half of an even circle."""
    most = n // 2 - (n % 2 == 0 and place >= n // 2)
    return [(place + step) % n for step in range(1, most + 1)]


@pytest.mark.parametrize("keys", ["hybrid", "classical"])
def test_verifier_follows_the_round_after_a_dispute(keys: str) -> None:
    """Fresh keys follow the opened ones, and every byte of the second set-up is recomputed."""
    watched = Watched(6, "after", keys=keys)
    lie_about_tag(watched.bed, 3, 1)
    sums = watched.bed.sums()
    at = max(i for i, (_, request, _) in enumerate(watched.heard) if isinstance(request, Dispute))
    watched.verifier.begin(watched.bed.round, Upload.kind)
    for number, request, reply in watched.heard[: at + 1]:
        kind = request.kind.partition(".")[2]
        if kind in ("Advertise", "Roster"):  # the randomness that clients drew before the dispute
            watched.verifier.follow(number, kind, fields_of(request), fields_of(reply))
    watched.verifier.begin(watched.bed.round, Upload.kind)
    watched.follow_all(watched.heard[at + 1 :])
    assert watched.verifier.survivors == others(6, 3)
    for name, found in sums.items():
        assert watched.verifier.open_sum(name).tobytes() == found.tobytes()
    assert isinstance(watched.bed.aggregator, Aggregator)
