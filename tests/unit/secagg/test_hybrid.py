"""Keys of X25519 and ML-KEM-768 together: neither half alone gives a link."""

from __future__ import annotations

from collections import Counter

import pytest

from securefg.secagg import derive
from securefg.secagg.derive import Purpose
from securefg.secagg.errors import BadKey, Refused
from securefg.secagg.graph import GraphParameters, MaskGraph, choose_parameters
from securefg.secagg.hybrid import (
    CIPHERTEXT_BYTES,
    KEY_BYTES,
    FreshPair,
    check_key,
    encapsulate_secret,
)
from securefg.secagg.keys import KeyPair
from securefg.secagg.messages import Advertise, Deliver, Ready, Shares
from securefg.secagg.secret import Secret
from securefg.settings.secagg import Threat
from tests.unit.secagg.session_world import Upload, edited, same_sums, world

SETUP = b"s" * 32


def test_hybrid_pair_agrees_and_decapsulates() -> None:
    first_pair, other = (FreshPair(Secret.fresh(), "hybrid") for _ in range(2))
    secret, ciphertext = encapsulate_secret(other.public)
    assert first_pair.exchange(other.public) == other.exchange(first_pair.public)
    assert other.open_ciphertext(ciphertext) == secret
    assert first_pair.open_ciphertext(ciphertext) != secret
    assert (len(first_pair.public), len(ciphertext)) == (KEY_BYTES["hybrid"], CIPHERTEXT_BYTES)


def test_hybrid_pair_from_its_secret_is_the_same_pair() -> None:
    one = FreshPair(Secret.fresh(), "hybrid")
    assert FreshPair(one.secret, "hybrid").public == one.public


def test_x25519_half_is_not_the_secret_itself() -> None:
    """Somebody who solves for the X25519 scalar must not have what the ML-KEM half comes from."""
    secret = Secret.fresh()
    assert FreshPair(secret, "hybrid").public[:32] != KeyPair(secret).public
    assert FreshPair(secret, "classical").public == KeyPair(secret).public


def test_link_changes_with_everything_that_it_is_made_of() -> None:
    agreed, shared, other = (Secret(bytes([i]) * 32) for i in range(3))
    base = (SETUP, Purpose.MASK_LINK, agreed, shared, b"c" * 1088, 1, 2)
    changed = [
        (b"t" * 32, *base[1:]),
        (SETUP, Purpose.BOX_LINK, *base[2:]),
        (*base[:2], other, *base[3:]),
        (*base[:3], other, *base[4:]),
        (*base[:4], b"d" * 1088, 1, 2),
        (*base[:5], 2, 1),
    ]
    links = {derive.hybrid_link(*about).reveal() for about in [base, *changed]}
    assert len(links) == 7


def test_malformed_keys_are_refused() -> None:
    public = FreshPair(Secret.fresh(), "hybrid").public
    for bad in (public[:32], public + b"x", bytes(32) + public[32:], public[:32] + b"\xff" * 1184):
        with pytest.raises(BadKey):
            check_key(bad, "hybrid")
    check_key(public, "hybrid")
    with pytest.raises(BadKey, match="found 5 bytes"):
        FreshPair(Secret.fresh(), "hybrid").open_ciphertext(b"short")


@pytest.mark.parametrize("num_clients", [3, 4, 5, 6, 33, 40, 41])
def test_one_end_of_every_pair_encapsulates(num_clients: int) -> None:
    threat = Threat(population=num_clients)
    graph = MaskGraph.drawn(choose_parameters(num_clients, threat), b"g" * 32)
    sent = [(c, peer) for c in range(num_clients) for peer in graph.neighbours_ahead(c)]
    assert Counter(tuple(sorted(pair)) for pair in sent) == Counter(map(tuple, graph.pairs()))
    for client in range(num_clients):
        assert {*graph.neighbours_ahead(client), *graph.neighbours_behind(client)} == {
            *graph.neighbours(client)
        }
        assert (
            max(len(graph.neighbours_ahead(client)), len(graph.neighbours_behind(client)))
            <= graph.num_ahead
        )
        assert all(
            client in graph.neighbours_ahead(peer) for peer in graph.neighbours_behind(client)
        )


def test_graph_of_even_ring_has_opposite_ends_once() -> None:
    graph = MaskGraph.drawn(GraphParameters(4, 3, 3), b"g" * 32)
    assert [graph.neighbours_ahead(c) for c in range(4)] == [(1, 2), (2, 3), (3,), (0,)]


def test_advertise_of_another_format_is_refused_by_number() -> None:
    bed = world(3)
    with pytest.raises(Refused, match="version: found 1; expected 2"):
        bed.answer(0, Advertise(purpose=Upload.kind, version=1), [0])


def test_classical_keys_send_no_ciphertext() -> None:
    for suite, has_ciphertexts in (("classical", False), ("hybrid", True)):
        bed = world(4, keys=suite)
        assert same_sums(bed.sums(), bed.plain_sums(range(4)))
        shares = next(said for said in bed.said if isinstance(said, Shares))
        assert (shares.box_ciphertexts is not None) == has_ciphertexts
        assert (shares.mask_ciphertexts is not None) == has_ciphertexts


def test_client_silent_before_its_roots_is_masked_with_by_nobody() -> None:
    """In a sparse graph the set-up goes on: the client has no links, and stays out of it."""
    bed = world(60, drops={Ready: {7}}, layout=[[7], [n for n in range(60) if n != 7]])
    wanted = bed.plain_sums(n for n in range(60) if n != 7)
    assert same_sums(bed.sums(), wanted)
    bed.drops = {}
    assert same_sums(bed.sums(), wanted)
    assert bed.aggregator.blamed == {}


def test_later_sharer_without_a_link_is_refused() -> None:
    """Masks with it would be missing: a server that names it as a sharer gets no upload."""
    bed = world(5, drops={Shares: {4}}, layout=[[0], [1, 2, 3], [4]])
    bed.sums()
    session = bed.hosts[0]._session
    assert session is not None
    assert session.links_all([0, 1, 2, 3], [0])
    assert not session.links_all([0, 1, 2, 3, 4], [0])


def test_garbled_box_ciphertext_costs_one_share() -> None:
    bed = world(6, malicious=True)

    def garble(request: Deliver) -> Deliver:
        if request.box_ciphertexts is None:
            return request
        changed = request.box_ciphertexts.clone()
        changed[0, 2, 9] ^= 1
        return edited(request, box_ciphertexts=changed)  # type: ignore[return-value]

    bed.lie(Deliver, garble, 0)
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}


@pytest.mark.parametrize("name", ["box_ciphertexts", "mask_ciphertexts"])
def test_delivery_without_whole_ciphertexts_is_refused(name: str) -> None:
    for cut in (lambda rows: None, lambda rows: rows[:, 1:], lambda rows: rows[..., :5]):
        bed = world(4)
        bed.lie(Deliver, lambda told, cut=cut: edited(told, **{name: cut(getattr(told, name))}), 0)
        with pytest.raises(Refused, match=f"{name}: found"):
            bed.sums()
