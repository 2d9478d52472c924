"""A client that lies about one pair is named by evidence, and its victim stays in the sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import mask_confirmation, pair_tag, session_root
from securefg.secagg.disputes import Court, Word, find_liars
from securefg.secagg.errors import BadSignature, Refused
from securefg.secagg.hybrid import FreshPair, Suite, encapsulate_secret
from securefg.secagg.links import mask_link
from securefg.secagg.messages import Deliver, Dispute, Opening, Ready, Shares, Unmask
from securefg.secagg.secret import Secret
from securefg.secagg.session import Session, SignedPairs
from securefg.secagg.statements import request_hash
from tests.unit.secagg.session_world import (
    CONFIG_HASH,
    Upload,
    World,
    edited,
    identity,
    same_sums,
    world,
)

LIAR, VICTIM = 3, 1
SUITES: list[Suite] = ["hybrid", "classical"]


def lie_about_tag(
    bed: World, liar: int, victim: int, when: Callable[[Session], bool] = lambda session: True
) -> None:
    """The liar's own code gives a wrong tag for the one pair with its victim."""
    host = next(h for h, numbers in zip(bed.hosts, bed.layout, strict=True) if liar in numbers)
    fresh = host._fresh_session

    def lying_session(*about: Any) -> Session:
        session = fresh(*about)
        honest = session._wrap_root

        def wrapped(drop_root: Secret, place: int, peer: int) -> bytes:
            row = honest(drop_root, place, peer)
            is_pair = (session.clients[place], session.clients[peer]) == (liar, victim)
            if not (is_pair and when(session)):
                return row
            session._tags[min(place, peer), max(place, peer)] = bytes(16)  # it stands by its lie
            return row[:32] + bytes(16)

        session._wrap_root = wrapped  # type: ignore[method-assign]
        return session

    host._fresh_session = lying_session  # type: ignore[method-assign]


def others(num_clients: int, *left_out: int) -> list[int]:
    return [n for n in range(num_clients) if n not in left_out]


# -------------------------------------------------------------------------------- who is named


@pytest.mark.parametrize("num_clients", [4, 6, 20])
def test_liar_about_one_tag_is_named_and_victim_is_summed(num_clients: int) -> None:
    bed = world(num_clients, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    for _ in range(2):
        assert same_sums(bed.sums(), bed.plain_sums(others(num_clients, LIAR)))
    assert list(bed.aggregator.blamed) == [LIAR]
    assert "tag" in bed.aggregator.blamed[LIAR]


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize(("liar", "victim"), [(3, 1), (1, 3), (0, 5), (5, 0)])
def test_liar_is_named_whichever_end_encapsulates(suite: Suite, liar: int, victim: int) -> None:
    bed = world(6, malicious=True, keys=suite)
    lie_about_tag(bed, liar, victim)
    assert same_sums(bed.sums(), bed.plain_sums(others(6, liar)))
    assert list(bed.aggregator.blamed) == [liar]


def test_liar_in_later_sessions_alone_keeps_nobody_out() -> None:
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM, lambda session: not session.is_first)
    for _ in range(4):
        assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}


def test_two_liars_in_later_sessions_do_not_frame_their_victim() -> None:
    bed = world(6, malicious=True)
    for liar in (3, 5):
        lie_about_tag(bed, liar, 1, lambda session: not session.is_first)
    for _ in range(4):
        assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}


def test_liar_that_begins_later_is_named_in_the_same_round() -> None:
    bed = world(6, malicious=True)
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    lie_about_tag(bed, LIAR, VICTIM)
    assert same_sums(bed.sums(), bed.plain_sums(others(6, LIAR)))
    assert list(bed.aggregator.blamed) == [LIAR]


def test_two_liars_with_one_victim_are_both_named() -> None:
    bed = world(7, malicious=True, dropout=0.3)
    lie_about_tag(bed, 3, 1)
    lie_about_tag(bed, 6, 1)
    assert same_sums(bed.sums(), bed.plain_sums([0, 1, 2, 4, 5]))
    assert sorted(bed.aggregator.blamed) == [3, 6]


def test_sparse_graph_liar_is_named() -> None:
    bed = world(36, malicious=True, layout=[[3], others(36, 3)])
    bed.sums()
    victim = bed.hosts[0]._session.graph.neighbours(3)[0]  # type: ignore[union-attr]
    bed.aggregator._setup = None
    lie_about_tag(bed, 3, victim, lambda s: True)
    for other in range(36):
        if other != victim:
            lie_about_tag(bed, 3, other)
    bed.sums()
    assert list(bed.aggregator.blamed) == [3]


@pytest.mark.parametrize("liar", [1, 3])
def test_sender_of_a_false_ciphertext_is_named(liar: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends its neighbours secrets that it does not use itself."""
    bed = world(6, malicious=True)
    handle = bed.hosts[liar].handle

    def change(request: Message, turn: Any) -> Message:
        reply = handle(request, turn)
        if isinstance(reply, Shares) and reply.mask_ciphertexts is not None:
            reply.mask_ciphertexts[0, 0, 5] ^= 1
            session = bed.hosts[liar]._session
            assert session is not None
            session._offers[liar] = [bytes(r) for r in reply.mask_ciphertexts[0].numpy()]
        return reply

    monkeypatch.setattr(bed.hosts[liar], "handle", change)
    assert same_sums(bed.sums(), bed.plain_sums(others(6, liar)))
    assert list(bed.aggregator.blamed) == [liar]


def replying(bed: World, client: int, kind: type[Message], change: Callable[[Any], Any]) -> None:
    handle = bed.hosts[client].handle
    bed.hosts[client].handle = lambda request, turn: (  # type: ignore[method-assign]
        change(reply) if isinstance(reply := handle(request, turn), kind) else reply
    )


OPENED: dict[str, tuple[type[Message], Callable[[Any], Any], str]] = {
    "another secret": (
        Opening,
        lambda m: opening_of(bytes(32)),
        "does not match its signed half",
    ),
    "a bad signature on the opening": (
        Opening,
        lambda m: edited(m, signature=m.signature ^ 1),
        "bad signature",
    ),
    "a bad signature on its pairs": (
        Ready,
        lambda m: m if m.signature is None else edited(m, signature=m.signature ^ 1),
        "bad signature on its pairs",
    ),
}


def opening_of(secret: bytes) -> Opening:
    setup = SETUP[0]
    signature = identity(LIAR).sign("opening", setup, LIAR, secret)
    return Opening(
        secret=torch.frombuffer(bytearray(secret), dtype=torch.uint8)[None],
        signature=torch.frombuffer(bytearray(signature), dtype=torch.uint8)[None],
    )


SETUP = [b""]


@pytest.mark.parametrize(("kind", "change", "words"), OPENED.values(), ids=OPENED.keys())
def test_liar_that_opens_falsely_is_named(
    kind: type[Message], change: Callable[[Any], Any], words: str
) -> None:
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    exchange = bed.aggregator._exchange

    def noted(request: Message, *rest: Any) -> Any:
        if isinstance(request, Dispute):
            SETUP[0] = request.setup.numpy().tobytes()
        return exchange(request, *rest)

    bed.aggregator._exchange = noted
    replying(bed, LIAR, kind, change)
    assert same_sums(bed.sums(), bed.plain_sums(others(6, LIAR)))
    assert list(bed.aggregator.blamed) == [LIAR]
    assert words in bed.aggregator.blamed[LIAR]


def test_liar_that_does_not_open_is_named_in_the_second_round() -> None:
    """Client 3 decapsulates in its pair with 1, and without its key nobody can tell who lies."""
    bed = world(6, malicious=True, drops={Opening: {LIAR}})
    lie_about_tag(bed, LIAR, VICTIM)
    silent = bed.exchange

    def exchange(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        answered = silent(request, reply, clients)
        bed.silent -= bed.drops[Opening]  # it is silent in disputes alone
        return answered

    bed.aggregator._exchange = exchange
    assert same_sums(bed.sums(), bed.plain_sums(others(6, LIAR)))
    assert bed.aggregator.blamed == {}
    assert same_sums(bed.sums(), bed.plain_sums(others(6, LIAR)))
    assert list(bed.aggregator.blamed) == [LIAR]


def test_liar_that_did_not_open_before_a_restart_is_named_after_it() -> None:
    blamed_words: list[tuple[int, str]] = []
    bed = world(6, malicious=True, drops={Opening: {LIAR}})
    bed.aggregator.silences.update({LIAR: 1})
    bed.aggregator._court.suspect = lambda *word: blamed_words.append(word)
    lie_about_tag(bed, LIAR, VICTIM)
    assert same_sums(bed.sums(), bed.plain_sums(others(6, LIAR)))
    assert bed.aggregator.blamed == {LIAR: "did not open its key in 2 disputes"}
    assert blamed_words == [(LIAR, "did not open its key in a dispute")]


# -------------------------------------------------------------------- no honest client is named


def honest_words(suite: Suite) -> tuple[bytes, bytes, Word, Word]:
    """Two honest clients' words on a pair: sender at place 2, receiver at place 5."""
    setup, session = b"s" * 32, b"i" * 32
    first_pair, other = FreshPair(Secret.fresh(), suite), FreshPair(Secret.fresh(), suite)
    encapsulated = encapsulate_secret(other.public) if suite == "hybrid" else None
    link = mask_link(setup, first_pair.exchange(other.public), encapsulated, 2, 5)
    tag = pair_tag(session_root(link, session), 2, 5)
    sent = encapsulated[1] + mask_confirmation(link, 2, 5) if encapsulated else b""
    sender = Word(12, 2, first_pair.public, tag, sent, first_pair.secret)
    return setup, session, sender, Word(15, 5, other.public, tag, sent, other.secret)


@pytest.mark.parametrize("suite", SUITES)
def test_judge_never_names_the_honest_end(suite: Suite) -> None:
    setup, session, sender, receiver = honest_words(suite)
    forged = FreshPair(Secret.fresh(), suite)
    lies: list[dict[str, Any]] = [
        {"tag": bytes(16)},
        {"tag": bytes(16), "secret": None},
        {"tag": bytes(16), "secret": forged.secret},
        {"offer": b"x" * 1104, "tag": bytes(16)},
        {"secret": forged.secret},
        {"offer": sender.offer[:-1] + b"x"},
    ]
    for lie in lies:
        assert sender.number not in find_liars(
            setup, session, suite, sender, replace(receiver, **lie)
        )
        assert receiver.number not in find_liars(
            setup, session, suite, replace(sender, **lie), receiver
        )


@pytest.mark.parametrize("suite", SUITES)
def test_judge_names_who_signed_another_tag(suite: Suite) -> None:
    setup, session, sender, receiver = honest_words(suite)
    assert find_liars(setup, session, suite, sender, receiver) == {}
    wrong = replace(sender, tag=bytes(16))
    assert list(find_liars(setup, session, suite, wrong, receiver)) == [sender.number]
    wrong = replace(receiver, tag=bytes(16))
    assert list(find_liars(setup, session, suite, sender, wrong)) == [receiver.number]


# ------------------------------------------------------------------- when a client opens its key


def in_dispute(bed: World) -> Dispute:
    """The first dispute of a session, as the server would send it to client 1, held back."""
    held: list[Dispute] = []
    exchange = bed.aggregator._exchange

    class Held(Exception):
        pass

    def stop(request: Message, *rest: Any) -> Any:
        if isinstance(request, Dispute):
            held.append(request)
            raise Held
        return exchange(request, *rest)

    bed.aggregator._exchange = stop
    with pytest.raises(Held):
        bed.sums()
    row = sorted((LIAR, VICTIM)).index(VICTIM)
    names = [n for n, d in Dispute.declarations.items() if d.scope == "personal"]
    return edited(held[0], **{n: getattr(held[0], n)[row : row + 1] for n in names})  # type: ignore[return-value]


def test_client_in_a_real_dispute_opens_once_and_then_uploads_nothing() -> None:
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = in_dispute(bed)
    assert isinstance(bed.answer(VICTIM, dispute, [VICTIM]), Opening)
    with pytest.raises(Refused, match="no session"):
        bed.hosts[VICTIM].check_request(request_hash(bed.request))
    with pytest.raises(Refused, match="is opened once"):
        bed.answer(VICTIM, dispute, [VICTIM])


def test_client_that_uploaded_opens_nothing() -> None:
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = in_dispute(bed)
    bed.hosts[VICTIM].check_request(request_hash(bed.request))
    assert bed.hosts[VICTIM]._seats.linking is None  # type: ignore[union-attr]
    with pytest.raises(Refused, match="before anything is uploaded"):
        bed.answer(VICTIM, dispute, [VICTIM])


FALSE: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "another set-up": (lambda d: edited(d, setup=d.setup ^ 1), Refused, "another set-up"),
    "a tag that was not signed": (
        lambda d: edited(d, wrapped=d.wrapped ^ 1),
        BadSignature,
        "pairs",
    ),
    "signed rows cut again": (
        lambda d: edited(d, wrapped=d.wrapped.reshape(1, -1, 16)),
        Refused,
        "is no other",
    ),
    "a client that agrees": (lambda d: edited(d, peers=[2]), Refused, "is no other"),
    "the client itself": (lambda d: edited(d, peers=[1]), Refused, "is no other"),
    "a stranger": (lambda d: edited(d, peers=[17]), Refused, "is no other"),
    "another ciphertext": (
        lambda d: edited(d, received=d.received ^ 1, sent=d.sent ^ 1),
        Refused,
        "is no other",
    ),
}


@pytest.mark.parametrize(("change", "error", "words"), FALSE.values(), ids=FALSE.keys())
def test_client_opens_nothing_without_signed_evidence(
    change: Callable[[Any], Any], error: type[Exception], words: str
) -> None:
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = change(in_dispute(bed))
    with pytest.raises(error, match=words):
        bed.answer(VICTIM, dispute, [VICTIM])
    assert bed.hosts[VICTIM]._session is None


def test_server_that_changes_a_ciphertext_gets_no_key_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ends are honest, and signed different ciphertexts; the server goes on all the same."""
    monkeypatch.setattr(Court, "_has_signed", lambda *about: True)
    bed = world(6, malicious=True)

    def change(request: Any) -> Message:
        if request.mask_ciphertexts is not None:
            request.mask_ciphertexts[0, 0, 7] ^= 1
        return request

    bed.lie(Deliver, change, VICTIM)
    with pytest.raises((Refused, BadSignature)):
        bed.sums()
    assert not [said for said in bed.said if isinstance(said, Opening)]


def test_memory_forbids_opening_and_upload_across_restarts(tmp_path: Path) -> None:
    def memory() -> Any:
        settings = world(3).settings
        identities = {0: identity(0)}
        roster = [identity(n).public for n in range(3)]
        path = tmp_path / "memory"
        return SecureClients(settings, CONFIG_HASH, identities, roster, memory_file=path).memory

    first, opened, uploaded = memory(), b"o" * 32, b"u" * 32
    first.opened(1, "Upload", [0], opened)
    first.uploaded(2, "Upload", [0], b"s" * 32, 3, b"r" * 32, uploaded)
    for kept in (first, memory()):
        with pytest.raises(Refused, match="opened in a dispute"):
            kept.refuse_opened(opened)
        with pytest.raises(Refused, match="upload under this set-up"):
            kept.refuse_opening(uploaded)
        kept.refuse_opened(uploaded)
        kept.refuse_opening(opened)
        kept.refuse_repeat(1, "Upload", [0], one_opens=False)


def test_signed_rows_cut_again_are_no_evidence_for_the_judge() -> None:
    """The signature is over the joined rows, so it holds for any cut of them."""
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    dispute = in_dispute(bed)
    blamed: dict[int, str] = {}
    court = Court("hybrid", bed.roster, lambda *about: None, blamed.__setitem__)
    setup = bed.hosts[VICTIM]._session
    assert setup is not None
    rows = [bytes(row) for row in dispute.wrapped.reshape(-1, 16).numpy()]
    sent, received = ([bytes(r) for r in t[0].numpy()] for t in (dispute.sent, dispute.received))
    pairs = SignedPairs(rows, sent, received, bytes(dispute.signatures[0].numpy()))
    assert not court._has_signed(LIAR, setup.places[LIAR], pairs, setup.graph, setup.id)
    assert "another width" in blamed[LIAR]


def test_key_in_another_form_is_blamed_on_its_sender() -> None:
    """Two replies whose forms differ must not make the honest one look odd."""
    bed = world(6, malicious=True)
    lie_about_tag(bed, LIAR, VICTIM)
    handle = bed.hosts[LIAR].handle

    def change(request: Message, turn: Any) -> Message:
        reply = handle(request, turn)
        if isinstance(reply, Opening):
            return edited(reply, secret=reply.secret.to(torch.int8))
        return reply

    bed.hosts[LIAR].handle = change  # type: ignore[method-assign]
    assert same_sums(bed.sums(), bed.plain_sums(others(6, LIAR)))
    assert list(bed.aggregator.blamed) == [LIAR]


def test_names_without_signatures_do_not_make_a_sum() -> None:
    """A client that opened its key never signs, and could be named as a survivor."""
    bed = world(6, malicious=True, least_survivors={Upload.kind: 6})
    fewer = [0, 1, 2, 3, 4]
    bed.lie(
        Unmask, lambda u: edited(u, signers=u.signers[fewer], signatures=u.signatures[fewer]), 0
    )
    with pytest.raises(Refused, match="5 signed the survivors, under the 6 of a sum"):
        bed.sums()


def test_no_key_is_opened_in_a_sparse_graph() -> None:
    bed = world(36, malicious=True)
    bed.sums()
    session = bed.hosts[0]._session
    assert session is not None
    assert not session.graph.parameters.complete
    victim = session.graph.neighbours(3)[0]
    bed.aggregator._setup = None
    lie_about_tag(bed, 3, victim)
    bed.sums()
    assert not [said for said in bed.said if isinstance(said, Opening)]
