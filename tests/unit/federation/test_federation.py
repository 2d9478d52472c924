"""The cohort asks whom it should, checks and counts every reply, and adds up what came."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from securefg.engines.admission import Admission, PlannedField, RequestPlan
from securefg.engines.endpoint import Endpoint
from securefg.engines.inprocess import InProcess
from securefg.federation.channel import Channel
from securefg.federation.engine import Answer, Dropped, Engine, HostId
from securefg.federation.evaluation import LocalScore
from securefg.federation.federation import Federation
from securefg.federation.peers import odd_ones
from securefg.federation.roles import Host, PublicInfo, require_replies
from securefg.foundation.errors import BudgetExceeded, NoRule, ProtocolError, RunFailed
from securefg.foundation.streams import torch_stream
from securefg.methods.base import Method, sample_clients
from securefg.privacy.defence import Defence
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.ledger import Ledger, Release, read_ledger
from securefg.privacy.noise import SeededNoise
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope, Size, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, personal, private, public
from securefg.protocol.transcript import Record, TranscriptWriter, read_transcript, total_bytes
from securefg.settings.methods import MethodSettings

PLAIN = {f"Tell.{name}": Plain() for name in ("number", "size", "row")}
NOISY = LocalGaussian(clip_l2=1.0, noise_multiplier=1.0, per="message")


class Ask(Message, kind="test_federation.Ask"):
    model: Tensor = public("model", means=Other())


class AskEach(Message, kind="test_federation.AskEach"):
    model: Tensor = public("model")
    own: Tensor = personal("a row for each client", means=Other())


class Leaky(Message, kind="test_federation.Leaky"):
    model: Tensor = private("sum", "what the server must not hold", means=Other())


class Tell(Message, kind="test_federation.Tell"):
    number: Tensor = private("sum", "the client's number, thrice", means=Other(), weight="size")
    size: Tensor | None = private("sum", "its weight", means=Other())
    row: Tensor | None = private("each", "what it was sent", means=Other())
    round: int | None = public("the round")


class Echo(Host):
    """Answers with its clients' numbers, and with the personal rows it was sent."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.weighted = True
        self.tells_the_round = True
        self.fail: Exception | None = None

    def handle(self, request: Message, turn: Turn) -> Message:
        self.turns.append(turn)
        if self.fail is not None:
            raise self.fail
        numbers = torch.tensor(turn.clients.numbers(), dtype=torch.float32)
        return Tell(
            number=numbers[:, None].repeat(1, 3),
            size=numbers + 1 if self.weighted else None,
            row=request.own if isinstance(request, AskEach) else None,
            round=turn.round if self.tells_the_round else None,
        )


METHOD = Method(
    name="tiny",
    summary="for tests",
    settings=MethodSettings,
    messages=(Ask, AskEach, Tell, Leaky),
    replies={Ask: Tell, AskEach: Tell},
    release=Ask,
    planned=lambda settings, training, info: [],
    make_host=lambda site: Echo(),
    make_server=lambda info, settings, training, cohort: pytest.fail("no server here"),
)
LAYOUT = {
    "host-0": Clients(((0, 2),)),
    "host-1": Clients(((2, 3),)),
    "host-2": Clients(((3, 6),)),
}


def plan_for(policy: Policy) -> RequestPlan:
    """A plan of every field that has a rule."""
    sizes = {"number": 3, "size": 1, "row": 2}
    return RequestPlan(
        public=PublicInfo(6, 3, 2, 6, 0, torch.device("cpu")),
        planned=tuple(
            PlannedField(Tell.kind, name, dim, 1, 100)
            for name, dim in sizes.items()
            if f"Tell.{name}" in policy.rules
        ),
        bounds={},
        rounds=100,
    )


class Bed:
    """Three hosts with six clients in this process, under one federation."""

    def __init__(
        self, folder: Path, rules: dict[str, Defence] | None = None, budget: float | None = None
    ) -> None:
        self.folder = folder
        self.hosts = {name: Echo() for name in LAYOUT}
        policy = Policy(rules or dict(PLAIN), 1e-5, "client", budget, protects=False)
        endpoints = [
            Endpoint(
                name,
                LAYOUT[name],
                METHOD,
                host,
                Channel(policy, SeededNoise(0), Ledger(6)),
                Admission(METHOD, MethodSettings(name="tiny"), policy, plan_for(policy)),
            )
            for name, host in self.hosts.items()
        ]
        self.engine = Tapped(InProcess(endpoints))
        self.ledger = Ledger(6, folder / "ledger.jsonl")
        self.writer = TranscriptWriter(folder / "transcript")
        self.federation = Federation(self.engine, policy, self.ledger, self.writer)
        self.federation.begin_round(1)

    def booked(self) -> list[Release]:
        return list(read_ledger(self.folder / "ledger.jsonl"))

    def records(self) -> list[Record]:
        self.writer.sync()
        return list(read_transcript(self.folder / "transcript"))


class Tapped(Engine):
    """Keeps every frame that crosses, and may change the answers on their way."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self.hosts = inner.hosts
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.change: Callable[[Envelope], Envelope] = lambda envelope: envelope

    def deliver(self, requests: Mapping[HostId, bytes]) -> Mapping[HostId, Answer | Dropped]:
        self.down += requests.values()
        answers: dict[HostId, Answer | Dropped] = {}
        for name, answer in self._inner.deliver(requests).items():
            answers[name] = self._changed(answer) if isinstance(answer, Answer) else answer
        return answers

    def _changed(self, answer: Answer) -> Answer:
        framed = codec.frame(self.change(codec.unframe(answer.framed)))
        self.up.append(framed)
        return replace(answer, framed=framed)

    def measure(self, release: bytes, *, at_end: bool = False) -> list[LocalScore]:
        return self._inner.measure(release, at_end=at_end)

    def save(self, folder: Path) -> None:
        self._inner.save(folder)

    def load(self, folder: Path) -> None:
        self._inner.load(folder)

    def close(self) -> None:
        self._inner.close()


MakeBed = Callable[..., Bed]


@pytest.fixture
def make_bed(tmp_path: Path) -> Iterator[MakeBed]:
    with ExitStack() as stack:

        def make(rules: dict[str, Defence] | None = None, budget: float | None = None) -> Bed:
            made = Bed(tmp_path, rules, budget)
            stack.callback(made.writer.close)
            return made

        yield make


@pytest.fixture
def bed(make_bed: MakeBed) -> Bed:
    return make_bed()


def ask() -> Ask:
    return Ask(model=torch.arange(4.0))


# ------------------------------------------------------------------------- sums, means and rows


def test_a_sum_is_weighted_as_the_declaration_says(bed: Bed) -> None:
    replies = bed.federation.ask(ask(), Tell)
    assert replies.sum("number").tolist() == [sum(n * (n + 1) for n in range(6))] * 3
    assert float(replies.sum("size")) == 21


def test_a_mean_divides_by_the_sum_of_the_weights(bed: Bed) -> None:
    mean = bed.federation.ask(ask(), Tell).mean("number")
    assert mean.tolist() == pytest.approx([70 / 21] * 3)


def test_without_weights_clients_count_alike(bed: Bed) -> None:
    for host in bed.hosts.values():
        host.weighted = False
    assert bed.federation.ask(ask(), Tell).mean("number").tolist() == [2.5] * 3


def test_single_values_of_a_sum_field_are_refused(bed: Bed) -> None:
    replies = bed.federation.ask(ask(), Tell)
    with pytest.raises(ProtocolError, match=r"Tell\.number is declared as a sum: use \.sum"):
        replies.each("number")


def test_a_field_that_was_not_sent_is_refused(bed: Bed) -> None:
    with pytest.raises(ProtocolError, match=r"Tell\.row was not sent"):
        bed.federation.ask(ask(), Tell).each("row")


def test_replies_are_rows_in_the_order_of_the_clients(bed: Bed) -> None:
    own = torch.arange(12.0).reshape(6, 2)
    replies = bed.federation.ask(AskEach(model=torch.ones(1), own=own), Tell)
    assert torch.equal(replies.each("row"), own)
    assert replies.clients.numbers() == list(range(6))
    assert replies.count == 6


def test_personal_rows_reach_their_own_host_and_no_other(bed: Bed) -> None:
    own = torch.arange(6.0)[:, None]
    bed.federation.ask(AskEach(model=torch.ones(1), own=own), Tell)
    sent = [codec.unframe(data) for data in bed.engine.down]
    rows = {e.receiver: codec.decode(e.body, AskEach).own.flatten().tolist() for e in sent}
    assert rows == {"host-0": [0, 1], "host-1": [2], "host-2": [3, 4, 5]}


def test_personal_rows_follow_the_clients_that_are_asked(bed: Bed) -> None:
    some = Clients.of([1, 3, 5])
    own = torch.tensor([[10.0], [30.0], [50.0]])
    replies = bed.federation.ask(AskEach(model=torch.ones(1), own=own), Tell, some)
    assert torch.equal(replies.each("row"), own)
    sent = {e.receiver: e.clients.numbers() for e in map(codec.unframe, bed.engine.down)}
    assert sent == {"host-0": [1], "host-2": [3, 5]}


def test_partial_participation_asks_only_those(bed: Bed) -> None:
    replies = bed.federation.ask(ask(), Tell, Clients.of([1, 2]))
    assert [t.clients.numbers() for h in bed.hosts.values() for t in h.turns] == [[1], [2]]
    assert bed.hosts["host-2"].turns == []
    assert replies.clients.numbers() == [1, 2]
    assert float(replies.sum("size")) == 5


def test_hosts_that_disagree_on_a_scalar_are_refused(bed: Bed) -> None:
    bed.hosts["host-1"].tells_the_round = False
    with pytest.raises(ProtocolError, match=r"Tell\.round: the clients do not agree"):
        bed.federation.ask(ask(), Tell)


# ----------------------------------------------------------------------------------- drop-outs


def test_a_dropped_host_is_named_and_the_mean_renormalises(bed: Bed) -> None:
    bed.hosts["host-2"].fail = OSError("secret path")
    replies = bed.federation.ask(ask(), Tell)
    assert [(d.host, d.clients, d.reason) for d in replies.dropped] == [
        ("host-2", LAYOUT["host-2"], "failed")
    ]
    assert replies.clients.numbers() == [0, 1, 2]
    assert replies.mean("number").tolist() == pytest.approx([(0 * 1 + 1 * 2 + 2 * 3) / 6] * 3)
    assert bed.federation.traffic.dropped == 3
    last = bed.records()[-1]
    assert (last.kind, last.sender, last.clients, last.note) == (
        "dropped",
        "host-2",
        "3-5",
        "failed",
    )


def test_a_mean_of_clients_that_count_alike_renormalises_too(bed: Bed) -> None:
    for host in bed.hosts.values():
        host.weighted = False
    bed.hosts["host-2"].fail = OSError()
    assert bed.federation.ask(ask(), Tell).mean("number").tolist() == [1.0] * 3


def test_only_the_clients_asked_are_counted_as_dropped(bed: Bed) -> None:
    bed.hosts["host-2"].fail = OSError()
    replies = bed.federation.ask(ask(), Tell, Clients.of([0, 4]))
    assert replies.dropped[0].clients.numbers() == [4]
    assert bed.federation.traffic.dropped == 1


def test_where_all_drop_out_the_run_fails_with_the_reasons(bed: Bed) -> None:
    for host in bed.hosts.values():
        host.fail = OSError()
    replies = bed.federation.ask(ask(), Tell)
    assert replies.count == 0
    with pytest.raises(ProtocolError, match="no client replied"):
        replies.mean("number")
    with pytest.raises(RunFailed, match=r"round 1: every client dropped out \(failed\)"):
        require_replies(replies, 1)


def test_replies_of_some_are_enough_to_go_on(bed: Bed) -> None:
    bed.hosts["host-0"].fail = OSError()
    replies = bed.federation.ask(ask(), Tell)
    assert require_replies(replies, 1) is replies


@pytest.mark.parametrize("error", [ProtocolError("broken"), NoRule("none")])
def test_a_breach_of_the_rules_is_no_drop_out(bed: Bed, error: Exception) -> None:
    bed.hosts["host-1"].fail = error
    with pytest.raises(type(error)):
        bed.federation.ask(ask(), Tell)


# --------------------------------------------------------------------------- what is not a reply


@pytest.mark.parametrize(
    "change",
    [
        {"round": 2},
        {"step": 2},
        {"sender": "host-9"},
        {"kind": "test_federation.Ask"},
        {"clients": Clients(((0, 3),))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_reply_that_was_not_asked_for_is_refused(bed: Bed, change: dict[str, Any]) -> None:
    bed.engine.change = lambda envelope: replace(envelope, **change)
    with pytest.raises(ProtocolError, match="a reply that was not asked for"):
        bed.federation.ask(ask(), Tell)


def test_a_reply_of_an_earlier_round_is_refused(bed: Bed) -> None:
    bed.federation.ask(ask(), Tell)
    bed.federation.begin_round(2)
    bed.engine.change = lambda envelope: replace(envelope, round=1)
    with pytest.raises(ProtocolError, match="not asked for"):
        bed.federation.ask(ask(), Tell)


def test_a_request_with_a_private_field_is_refused_and_not_sent(bed: Bed) -> None:
    with pytest.raises(ProtocolError, match=r"Leaky goes to clients and must have no private"):
        bed.federation.ask(Leaky(model=torch.ones(2)), Tell)
    assert bed.engine.down == []
    assert bed.records() == []


def test_a_host_does_not_answer_a_kind_that_its_method_does_not_have(bed: Bed) -> None:
    class Foreign(Message, kind="test_federation.Foreign"):
        model: Tensor = public("model")

    with pytest.raises(ProtocolError, match="tiny has no message"):
        bed.federation.ask(Foreign(model=torch.ones(1)), Tell)


# ------------------------------------------------------------------------ recorded and accounted


@pytest.mark.parametrize("each", [False, True], ids=["broadcast", "personal"])
def test_byte_counts_are_the_sums_of_the_frames(bed: Bed, each: bool) -> None:
    own = torch.ones(6, 2)
    bed.federation.ask(AskEach(model=torch.ones(9), own=own) if each else ask(), Tell)
    bed.federation.ask(ask(), Tell, Clients.of([0]))
    traffic = bed.federation.traffic
    assert traffic.up == sum(map(codec.size_of, bed.engine.up), Size())
    assert traffic.down == sum(map(codec.size_of, bed.engine.down), Size())
    assert traffic.up.payload + traffic.up.envelope == sum(map(len, bed.engine.up))
    assert traffic.down.payload + traffic.down.envelope == sum(map(len, bed.engine.down))
    assert total_bytes(iter(bed.records())) == (traffic.up, traffic.down)


def test_a_broadcast_is_recorded_once_with_all_its_receivers(bed: Bed) -> None:
    bed.federation.ask(ask(), Tell)
    first, *replies = bed.records()
    assert (first.sender, first.receivers) == ("server", tuple(LAYOUT))
    assert (first.kind, first.clients) == (Ask.kind, "0-5")
    assert [(r.sender, r.receivers, r.clients) for r in replies] == [
        (name, ("server",), str(clients)) for name, clients in LAYOUT.items()
    ]
    assert len({r.seq for r in bed.records()}) == 4


def test_personal_messages_are_recorded_one_by_one_with_their_personal_fields(bed: Bed) -> None:
    bed.federation.ask(AskEach(model=torch.ones(1), own=torch.ones(6, 1)), Tell)
    requests = [r for r in bed.records() if not r.up]
    assert [r.receivers for r in requests] == [(name,) for name in LAYOUT]
    assert all(r.personal == ("own",) for r in requests)


def test_the_body_on_record_is_the_body_that_crossed(bed: Bed) -> None:
    bed.federation.ask(ask(), Tell)
    bodies = [r.body for r in bed.records() if r.up]
    assert bodies == [codec.unframe(data).body for data in bed.engine.up]


@pytest.mark.parametrize("clients", [None, Clients(((2, 3),))], ids=["three hosts", "one host"])
def test_writing_to_replies_changes_no_bytes_that_crossed(
    bed: Bed, clients: Clients | None
) -> None:
    replies = bed.federation.ask(ask(), Tell, clients)
    crossed = [bytearray(data) for data in bed.engine.up]
    assert replies.message is not None
    replies.message.number.fill_(-1)
    assert bed.engine.up == crossed


def test_a_record_says_what_was_done_to_each_private_field(make_bed: MakeBed) -> None:
    bed = make_bed({**PLAIN, "Tell.number": NOISY})
    bed.federation.ask(ask(), Tell)
    assert bed.records()[-1].rules == {"number": "local_gaussian", "size": "plain"}


def test_a_round_whose_bodies_are_not_kept_is_thinned_and_still_counted(bed: Bed) -> None:
    thin = Federation(
        bed.engine, bed.federation._policy, bed.ledger, bed.writer, keep_body=lambda round: False
    )
    thin.ask(ask(), Tell)
    assert all(r.thinned and r.body == b"" for r in bed.records())
    assert total_bytes(iter(bed.records())) == (thin.traffic.up, thin.traffic.down)


def test_every_release_is_booked_for_the_clients_that_made_it(bed: Bed) -> None:
    bed.federation.ask(ask(), Tell, Clients.of([1, 2, 4]))
    bed.federation.begin_round(2)
    bed.federation.ask(ask(), Tell, Clients.of([1]))
    counts = {m.field: bed.ledger.counts(m).tolist() for m in bed.ledger.mechanisms}
    assert counts == {"Tell.number": [0, 2, 1, 0, 1, 0], "Tell.size": [0, 2, 1, 0, 1, 0]}
    assert [r.round for r in bed.booked()] == [1] * 6 + [2] * 2


def test_a_client_that_dropped_out_is_not_booked(bed: Bed) -> None:
    bed.hosts["host-2"].fail = OSError()
    bed.federation.ask(ask(), Tell)
    assert all(bed.ledger.counts(m).tolist()[3:] == [0, 0, 0] for m in bed.ledger.mechanisms)


def test_the_budget_stops_the_asking_before_anything_is_sent(make_bed: MakeBed) -> None:
    """Two noised fields, mu = sqrt(2) a round: epsilon 6.6 after one round, 10 after two."""
    bed = make_bed({"Tell.number": NOISY, "Tell.size": NOISY}, budget=8.0)
    bed.federation.ask(ask(), Tell)
    sent, booked = len(bed.engine.down), bed.booked()
    with pytest.raises(BudgetExceeded):
        bed.federation.ask(ask(), Tell)
    assert len(bed.engine.down) == sent
    assert bed.booked() == booked


def test_every_ask_of_a_round_has_its_own_step(bed: Bed) -> None:
    bed.federation.ask(ask(), Tell)
    bed.federation.ask(ask(), Tell)
    bed.federation.begin_round(2)
    bed.federation.ask(ask(), Tell)
    assert [(t.round, t.step) for t in bed.hosts["host-0"].turns] == [(1, 1), (1, 2), (2, 1)]


# ------------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize(
    ("clients", "share", "count"),
    [
        (10, 1.0, 10),
        (10, 0.5, 5),
        (10, 0.45, 5),
        (10, 0.01, 1),
        (10, 0.91, 10),
        (100, 0.07, 7),
        (100, 0.55, 55),
    ],
)
def test_a_sample_has_the_share_asked_rounded_up(clients: int, share: float, count: int) -> None:
    """0.07 * 100 is a little more than 7 in binary, and still means 7."""
    assert len(sample_clients(clients, share, torch_stream(0, "participation"))) == count


def test_every_client_is_sampled_alike() -> None:
    """4000 draws of 3 out of 10: each client 1200 times, standard deviation 29."""
    counts = torch.zeros(10)
    stream = torch_stream(0, "participation")
    for _ in range(4000):
        counts[sample_clients(10, 0.3, stream).numbers()] += 1
    assert counts.sum() == 12_000
    assert float((counts - 1200).abs().max()) < 5 * 29


def test_words_that_differ_late_are_odd_too() -> None:
    """What is shown of them is cut; what is compared is not."""
    start = "x" * 100
    sent = {"a": {"word": start}, "b": {"word": start}, "c": {"word": start + "label 7"}}
    assert set(odd_ones(sent)) == {"c"}


def test_odd_ones_in_a_tie_are_all_hosts() -> None:
    """Before, the kind that came first passed for the usual one: the honest host was dropped."""
    for sent in ({"liar": {"word": 1}, "b": {"word": 2}}, {"b": {"word": 2}, "liar": {"word": 1}}):
        assert set(odd_ones(sent)) == {"liar", "b"}
    three = {"a": {"word": 1}, "b": {"word": 2}, "c": {"word": 2}}
    assert set(odd_ones(three)) == {"a"}
