"""What a server tries over several sessions, restarts and cohorts: real clients refuse it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from securefg.foundation.errors import RoundAborted, SecurefgError
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg.client import SecureClients
from securefg.secagg.errors import AskedBefore, MemoryDamaged, Refused
from securefg.secagg.keys import FORMAT
from securefg.secagg.memory import Memory
from securefg.secagg.messages import Advertise, Agreed, Keys, Ready, Revealed, Shares, Unmask
from securefg.secagg.server import Aggregator
from tests.unit.secagg.session_world import (
    CONFIG_HASH,
    Upload,
    World,
    identity,
    same_sums,
    world,
)
from tests.unit.secagg.test_lying_server import lists, roster_of

UPLOAD = Upload.kind


def restarted(
    bed: World, folder: Path, *numbers: int, cohorts: dict[str, int] | None = None
) -> None:
    """These clients' processes start anew, with what they keep on disk."""
    for number in numbers or range(bed.num_clients):
        bed.hosts[number] = SecureClients(
            bed.settings,
            CONFIG_HASH,
            {number: identity(number)},
            bed.roster,
            cohorts=cohorts,
            memory_file=folder / f"{number}.jsonl",
        )


def kept(folder: Path, num_clients: int, **settings: Any) -> World:
    """A world whose clients keep their memory in the folder."""
    bed = world(num_clients, **{"malicious": True, **settings})
    restarted(bed, folder)
    return bed


def ask_round(bed: World, round: int, clients: Sequence[int] | None = None) -> dict[str, Any]:
    """A server that asks for whatever round it likes, and whom it likes."""
    bed.silent, bed.round = set(), round
    chosen = None if clients is None else Clients.of(list(clients))
    opened = bed.aggregator.collect(bed.request, Upload, chosen, round)
    return {name: opened.total(name, bed.context(Upload, name)) for name in bed.rows}


def careless(bed: World) -> World:
    """Its server has none of our server's scruples."""
    bed.aggregator = Aggregator(bed.settings, CONFIG_HASH, bed.roster, bed.exchange)
    bed.aggregator._require_count = lambda *arguments: None  # type: ignore[method-assign]
    return bed


# ------------------------------------------------------------------------------ a round asked twice


@pytest.mark.parametrize("malicious", [True, False])
def test_a_round_is_not_summed_again_over_other_clients(malicious: bool, tmp_path: Path) -> None:
    bed = kept(tmp_path, 6, malicious=malicious)
    first = ask_round(bed, 1, [1, 2, 3, 4, 5])
    assert same_sums(first, bed.plain_sums([1, 2, 3, 4, 5]))
    count = len(bed.revealed())
    with pytest.raises(RoundAborted, match=r"round 1: .* was .* before"):
        ask_round(bed, 1)
    assert len(bed.revealed()) == count
    assert same_sums(ask_round(bed, 2), bed.plain_sums(range(6)))


@pytest.mark.parametrize("malicious", [True, False])
def test_nor_is_it_after_all_clients_restarted(malicious: bool, tmp_path: Path) -> None:
    """An honest server that resumes while client 0 is away does the same as a lying one."""
    bed = kept(tmp_path, 6, malicious=malicious)
    ask_round(bed, 3)
    restarted(bed, tmp_path)
    with pytest.raises(RoundAborted, match=r"agreed before|uploaded before"):
        ask_round(bed, 3, [1, 2, 3, 4, 5])
    assert same_sums(ask_round(bed, 4), bed.plain_sums(range(6)))


def test_a_client_without_a_memory_would_give_the_difference_away() -> None:
    """The mutant: clients that forget let a server subtract two sums, to the bit."""
    bed = world(6, malicious=True)
    first = ask_round(bed, 1, [1, 2, 3, 4, 5])
    for number, host in enumerate(bed.hosts):
        host.memory = Memory(identity(number), b"")
    second = ask_round(bed, 1)
    assert np.array_equal(second["numbers"] - first["numbers"], bed.rows["numbers"][0])


def test_a_client_left_out_of_the_first_sum_is_not_in_a_second(tmp_path: Path) -> None:
    """All upload; client 0 is said to have dropped out; then a second session is to have it."""
    bed = kept(tmp_path, 6)
    honest = bed.exchange

    def without_0(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        replies = honest(request, reply, clients)
        if reply is not Upload:
            return replies
        rows = [i for i, n in enumerate(replies.clients.numbers()) if n != 0]
        message = Upload(**{n: getattr(replies.message, n)[rows] for n in Upload.declarations})
        others = Clients.of([n for n in replies.clients.numbers() if n != 0])
        return type(replies)(message, others, ())

    bed.aggregator._exchange = without_0
    first = ask_round(bed, 1)
    assert same_sums(first, bed.plain_sums([1, 2, 3, 4, 5]))
    bed.aggregator._exchange = honest
    restarted(bed, tmp_path, 0)  # it alone may answer again: it had agreed to nothing
    for cohort in (None, [0, 1, 2, 3]):
        with pytest.raises((RoundAborted, Refused)):
            ask_round(careless(bed), 1, cohort)
    with pytest.raises(Refused, match="a cohort of 1, under 3"):
        bed.answer(0, _roster_of_one(bed), [0])


def _roster_of_one(bed: World) -> Message:
    keys: Any = bed.answer(0, Advertise(purpose=UPLOAD, version=FORMAT), [0])
    return roster_of(bed, keys)


def test_clients_that_went_down_before_they_agreed_may_answer_again(tmp_path: Path) -> None:
    """Nothing of the first session was opened, and nothing of it can be any more."""
    bed = kept(tmp_path, 6)
    bed.drops = {Agreed: set(range(6))}
    with pytest.raises(RoundAborted):
        ask_round(bed, 1)
    bed.drops = {}
    with pytest.raises(RoundAborted, match="uploaded before"):
        ask_round(bed, 1)  # while they are up, they do not
    restarted(bed, tmp_path)
    assert same_sums(ask_round(bed, 1), bed.plain_sums(range(6)))
    restarted(bed, tmp_path)
    with pytest.raises(RoundAborted, match="agreed before"):
        ask_round(bed, 1)


def test_where_two_sums_could_open_a_restart_changes_nothing(tmp_path: Path) -> None:
    """16 of 40 may fall silent: 24 are enough for a session, and 13 for the first to open."""
    bed = kept(tmp_path, 40, dropout=0.4, corrupt=0.0)
    bed.drops = {Agreed: set(range(40))}
    with pytest.raises(RoundAborted):
        ask_round(bed, 1)
    bed.drops = {}
    restarted(bed, tmp_path)
    with pytest.raises(RoundAborted, match="uploaded before"):
        ask_round(bed, 1)
    assert same_sums(ask_round(bed, 2), bed.plain_sums(range(40)))


def test_without_signatures_a_restart_changes_nothing(tmp_path: Path) -> None:
    bed = kept(tmp_path, 6, malicious=False)
    bed.drops = {Revealed: set(range(6))}
    with pytest.raises(RoundAborted):
        ask_round(bed, 1)
    bed.drops = {}
    restarted(bed, tmp_path)
    with pytest.raises(RoundAborted, match="uploaded before"):
        ask_round(bed, 1)


def test_another_request_is_no_repetition_of_the_first(tmp_path: Path) -> None:
    bed = kept(tmp_path, 6)
    bed.drops = {Agreed: set(range(6))}
    with pytest.raises(RoundAborted):
        ask_round(bed, 1)
    bed.drops = {}
    restarted(bed, tmp_path)
    other = type(bed.request)(model=torch.zeros(4))
    bed.round, bed.silent = 1, set()
    with pytest.raises(AskedBefore, match="with another request"):
        bed.aggregator.collect(other, Upload, None, 1)


# ------------------------------------------------------------------------------------ the memory


def test_a_memory_that_was_changed_in_any_way_ends_all(tmp_path: Path) -> None:
    bed = kept(tmp_path, 4)
    for round in (1, 2):
        ask_round(bed, round)
    path = tmp_path / "0.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert [json.loads(line)["did"] for line in lines] == ["uploaded", "agreed"] * 2
    forged = json.loads(lines[1]) | {"round": 9}
    for wrong in (
        [lines[0], *lines[2:]],
        [lines[1], lines[0], *lines[2:]],
        [lines[0], json.dumps(forged) + "\n", *lines[2:]],
        lines[1:],
        [*lines, "{}\n"],
        [*lines, lines[-1]],
    ):
        path.write_text("".join(wrong))
        with pytest.raises(MemoryDamaged, match="was changed"):
            restarted(bed, tmp_path, 0)
    path.write_text("".join(lines).replace('{"format":2,', "{", 1))
    with pytest.raises(MemoryDamaged, match="format: found 1; expected 2"):
        restarted(bed, tmp_path, 0)
    path.write_bytes((tmp_path / "1.jsonl").read_bytes())
    with pytest.raises(MemoryDamaged):
        restarted(bed, tmp_path, 0)


def test_an_agreement_that_was_cut_off_is_missed(tmp_path: Path) -> None:
    """The books do not tell of it; without it, all clients would let the round be summed again."""
    bed = kept(tmp_path, 4)
    ask_round(bed, 1)
    for number in range(4):
        path = tmp_path / f"{number}.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-1]))
        with pytest.raises(MemoryDamaged, match="one of the two was set back"):
            restarted(bed, tmp_path, number)
        path.write_text("".join(lines))
        head = path.with_name(f"{path.name}.head")
        head.write_text(head.read_text().replace('"length": 2', '"length": -3'))
        with pytest.raises(MemoryDamaged, match="one of the two was set back"):
            restarted(bed, tmp_path, number)
        head.unlink()  # a crash came between the line and its head
        restarted(bed, tmp_path, number)
    assert same_sums(ask_round(bed, 2), bed.plain_sums(range(4)))


def test_memory_two_agreements_beyond_its_head_is_refused(tmp_path: Path) -> None:
    bed = kept(tmp_path, 4)
    for round in (1, 2):
        ask_round(bed, round)
    (tmp_path / "0.jsonl.head").unlink()
    with pytest.raises(MemoryDamaged, match=r"found 2 agreements .* one of the two was set back"):
        restarted(bed, tmp_path, 0)


def test_a_line_that_a_crash_cut_short_is_dropped(tmp_path: Path) -> None:
    bed = kept(tmp_path, 4)
    ask_round(bed, 1)
    path = tmp_path / "0.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"did": "uplo')
    restarted(bed, tmp_path, 0)
    assert path.read_bytes() == whole
    assert same_sums(ask_round(bed, 2), bed.plain_sums(range(4)))


@pytest.mark.parametrize("lost", ["deleted", "set back"])
def test_a_memory_that_is_lost_while_its_clients_are_up_is_noticed(
    lost: str, tmp_path: Path
) -> None:
    bed = kept(tmp_path, 4)
    ask_round(bed, 1)
    path = tmp_path / "0.jsonl"
    before = path.read_bytes()
    ask_round(bed, 2)
    path.unlink()
    if lost == "set back":
        path.write_bytes(before)
    bed.masked = {}
    with pytest.raises(MemoryDamaged, match="or it was set back"):
        ask_round(bed, 3)
    assert 0 not in bed.masked


def test_what_was_done_is_on_disk_before_anything_follows_from_it(tmp_path: Path) -> None:
    bed = kept(tmp_path, 4)
    seen: dict[str, list[str]] = {}
    answer = bed.answer

    def spied(host: int, request: Message, *rest: Any) -> Message:
        host_reply = answer(host, request, *rest)
        path = tmp_path / f"{host}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        seen[type(host_reply).__name__] = [json.loads(line)["did"] for line in lines]
        return host_reply

    bed.answer = spied  # type: ignore[method-assign]
    ask_round(bed, 1)
    assert seen["Ready"] == []
    assert seen["Upload"] == ["uploaded"]
    assert seen["Agreed"] == seen["Revealed"] == ["uploaded", "agreed"]


# ------------------------------------------------------------------------ cohorts the server picks


def test_a_hundred_clients_do_not_meet_two_sybils_one_by_one() -> None:
    bed = careless(world(100, malicious=True))
    opened = 0
    for round, victim in enumerate(range(2, 12), 1):
        with pytest.raises(SecurefgError):
            ask_round(bed, round, [0, 1, victim])
        opened += len(bed.revealed())
    assert opened == 0
    assert not any(isinstance(message, Shares) for message in bed.said)


def test_the_least_cohort_counts_colluders_among_all_clients() -> None:
    """5 of 100 may collude: seven clients have two honest ones, six may have one."""
    bed = careless(world(100, malicious=True, dropout=0.0))
    with pytest.raises(Refused, match="a cohort of 6, under 7"):
        ask_round(bed, 1, range(6))
    assert same_sums(ask_round(bed, 2, range(7)), bed.plain_sums(range(7)))


def test_a_cohort_under_the_planned_one_is_refused(tmp_path: Path) -> None:
    bed = careless(world(20, malicious=True))
    restarted(bed, tmp_path, cohorts={UPLOAD: 20})
    with pytest.raises(Refused, match="a cohort of 15, under 16"):
        ask_round(bed, 1, range(15))
    assert same_sums(ask_round(bed, 2, range(16)), bed.plain_sums(range(16)))


def test_survivors_under_the_planned_cohort_are_not_signed(tmp_path: Path) -> None:
    bed = careless(world(20, malicious=True, drops={Upload: {0, 1, 2, 3, 4}}))
    restarted(bed, tmp_path, cohorts={UPLOAD: 20})
    with pytest.raises(Refused, match="15 survivors, under the 16"):
        ask_round(bed, 1)
    assert not bed.revealed()


@pytest.mark.parametrize("num_clients", [33, 34, pytest.param(100, marks=pytest.mark.slow)])
def test_by_default_two_halves_with_two_stories_open_nothing(num_clients: int) -> None:

    half = num_clients // 2
    sides = [list(range(half)), list(range(half, num_clients))]
    bed = world(num_clients, layout=sides, malicious=False)
    for side, gone in zip(sides, ([num_clients - 1], [0]), strict=True):
        alive = [n for n in range(num_clients) if n not in gone]
        bed.lie(Unmask, lists(alive, gone), *side)
    with pytest.raises((RoundAborted, Refused)):
        bed.collect()


# ------------------------------------------------------------------------------------------- blame


def tampered(bed: World, about: type[Message], change: Any) -> None:
    """A client that sends something else than it should."""
    honest = bed.exchange

    def exchange(request: Message, reply: type[Message], clients: Clients | None = None) -> Any:
        replies = honest(request, reply, clients)
        if reply is about:
            change(replies.message, replies.clients.numbers())
        return replies

    bed.aggregator._exchange = exchange


def flip(name: str, client: int, *place: int) -> Any:
    def change(message: Any, numbers: list[int]) -> None:
        if client in numbers:
            getattr(message, name)[(numbers.index(client), *place)] ^= 1

    return change


def two(*changes: Any) -> Any:
    def change(message: Any, numbers: list[int]) -> None:
        for one in changes:
            one(message, numbers)

    return change


def zero(name: str, client: int) -> Any:
    def change(message: Any, numbers: list[int]) -> None:
        if client in numbers:
            getattr(message, name)[numbers.index(client)] = 0

    return change


BAD: dict[str, tuple[type[Message], Any, bool]] = {
    "a key that it did not sign": (Keys, flip("mask_key", 3, 0), False),
    "a bad signature on its keys": (Keys, flip("signature", 3, 5), False),
    "a key of zeros": (Keys, zero("box_key", 3), False),
    "bad boxes for all": (Shares, zero("boxes", 3), False),
    "two bad boxes": (Shares, two(flip("boxes", 3, 0, 40), flip("boxes", 3, 1, 40)), False),
    "digests of other shares": (Shares, zero("share_digests", 3), False),
    "a bad signature on the survivors": (Agreed, flip("signature", 3, 9), True),
    "a bad share": (Revealed, flip("shares", 3, 1, 7), True),
    "bad shares of all": (Revealed, zero("shares", 3), True),
}


SPARSE = {"two bad boxes", "a bad share"}
"""Reports on boxes and on shares go along the graph; other faults are told to the server alone."""


@pytest.mark.parametrize(
    ("num_clients", "fault"),
    [
        *((6, fault) for fault in BAD),
        *((34, fault) for fault in BAD if fault in SPARSE),
        *(pytest.param(40, fault, marks=pytest.mark.slow) for fault in BAD),
    ],
)
def test_whoever_sends_what_breaks_a_session_is_named_and_the_sum_comes_out(
    fault: str, num_clients: int
) -> None:
    about, change, counts = BAD[fault]
    bed = world(num_clients, malicious=True, corrupt=0.0)
    tampered(bed, about, change)
    everybody = range(num_clients)
    wanted = [n for n in everybody if n != 3 or counts]
    assert same_sums(bed.sums(), bed.plain_sums(wanted))
    assert list(bed.aggregator.blamed) == [3]
    bed.aggregator._exchange = bed.exchange
    assert same_sums(bed.sums(), bed.plain_sums([n for n in everybody if n != 3]))


def test_a_low_order_key_is_traced_to_its_sender_though_it_signed_it() -> None:
    bed = world(6, malicious=True)

    def change(message: Any, numbers: list[int]) -> None:
        host = bed.hosts[3]
        message.box_key[3, :32] = 0
        keys = [key[3].numpy().tobytes() for key in (message.mask_key, message.box_key)]
        said = host._advertised_items(host._session, 3, *keys)
        signature = host._identities[3].sign("advertise", *said)
        message.signature[3] = torch.frombuffer(bytearray(signature), dtype=torch.uint8)

    tampered(bed, Keys, change)
    assert same_sums(bed.sums(), bed.plain_sums([0, 1, 2, 4, 5]))
    assert "low order" in bed.aggregator.blamed[3]


def test_a_receiver_that_finds_everything_bad_blames_nobody() -> None:
    bed = world(6, malicious=True)

    def change(message: Any, numbers: list[int]) -> None:
        message.bad[numbers.index(2)] = 1

    tampered(bed, Ready, change)
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}


@pytest.mark.parametrize("num_clients", [3, 4, 5, 6, 34])
def test_one_client_s_word_does_not_cast_another_out(num_clients: int) -> None:
    """Client 0 calls good boxes of others bad, half of them at once, in every round."""
    bed = world(num_clients, malicious=True)

    def change(message: Any, numbers: list[int]) -> None:
        half = message.bad.shape[1] // 2
        message.bad[numbers.index(0), 1 : 1 + half] = 1

    tampered(bed, Ready, change)
    for _ in range(2):
        assert same_sums(bed.sums(), bed.plain_sums(range(num_clients)))
    assert bed.aggregator.blamed == {}


def test_one_bad_box_is_one_share_less() -> None:
    bed = world(6, malicious=True)
    tampered(bed, Shares, flip("boxes", 3, 0, 40))
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}


def test_who_is_at_odds_with_one_after_the_other_in_later_sessions_is_named() -> None:
    """Client 3 lies to one peer a session, never in the first of a set-up: nobody stays out, until
    it is the third peer, half of the clients."""
    bed = world(6, malicious=True)
    wrong = [0]

    def change(message: Any, numbers: list[int]) -> None:
        if message.wrapped is not None:
            message.wrapped[numbers.index(3), wrong[0], -1] ^= 1

    tampered(bed, Shares, change)
    for wrong[0] in (0, 1):
        for _ in range(2):
            assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {}
    wrong[0] = 2
    assert same_sums(bed.sums(), bed.plain_sums([0, 1, 2, 4, 5]))
    assert list(bed.aggregator.blamed) == [3]


def test_shares_that_are_not_of_the_secret_name_their_owner() -> None:
    """Client 3 deals shares of something else, consistently: its own seed cannot be rebuilt."""
    bed = world(6, malicious=True)
    tampered(bed, Shares, zero("commitment", 3))
    with pytest.raises(RoundAborted, match="committed to"):
        bed.sums()
    assert list(bed.aggregator.blamed) == [3]
    bed.aggregator._exchange = bed.exchange
    assert same_sums(bed.sums(), bed.plain_sums([0, 1, 2, 4, 5]))
