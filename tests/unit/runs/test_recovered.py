"""What earlier clients gave away over a run is found in such transcripts, and today's give none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from securefg.federation.recorder import blamed_in, suspected_in
from securefg.methods.fedgl.messages import Globals, Update
from securefg.protocol import codec
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message, census_of
from securefg.protocol.transcript import Record
from securefg.runs import recovered
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.opened import read_opened
from securefg.secagg.exposure import Term
from tests.small import config
from tests.unit.secagg.test_run_exposure import brute_force

EVERYBODY = range(6)


def exposed(x: Experiment, records: Sequence[Record], colluders: Sequence[int] = ()) -> set[Term]:
    return recovered.find_exposed(x, read_opened(x.method, records), colluders)


def exposures(x: Experiment, records: Sequence[Record]) -> tuple[int | None, int | None]:
    return recovered.count_exposures(x, read_opened(x.method, records))


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Six clients of FedGL under masks; nothing runs."""
    shares = "partition.shares=[0.3, 0.4, 0.5, 0.5, 0.6, 0.7]"
    return prepare(config(tmp_path_factory.mktemp("six"), "privacy.secure_aggregation={}", shares))


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Six clients that average models by their sizes, and upload no rows."""
    shares = "partition.shares=[0.3, 0.4, 0.5, 0.5, 0.6, 0.7]"
    halves = ("method.pseudo_labels=false", "method.pseudo_graph=false")
    root = tmp_path_factory.mktemp("sized")
    return prepare(config(root, "privacy.secure_aggregation={}", shares, *halves))


def opened(
    message: type[Message], round: int, clients: Sequence[int], attempt: int = 1, **sums: Tensor
) -> Record:
    return Record(
        seq=1,
        round=round,
        step=1,
        attempt=attempt,
        seconds=0.0,
        sender="sum",
        receivers=("server",),
        kind=f"{message.kind}.sum",
        clients=str(Clients.of(list(clients))),
        payload=0,
        envelope=0,
        body=codec.encode_fields(sums),
    )


def updates(round: int, clients: Sequence[int], attempt: int = 1, **more: Tensor) -> Record:
    return opened(Update, round, clients, attempt, weights=torch.zeros(9), **more)


def rows(six: Experiment, fewer: int = 0) -> Tensor:
    return torch.zeros(six.public.num_nodes, six.public.num_classes - fewer)


def without(*away: int) -> list[int]:
    return [n for n in EVERYBODY if n not in away]


def test_a_round_that_was_asked_twice_gives_the_upload_that_was_in_one_sum(six: Experiment) -> None:
    records = [updates(1, without(0)), updates(1, EVERYBODY)]
    found = exposed(six, records)
    assert {(t.client, t.quantity) for t in found} == {(0, "fedgl.Update.weights")}


def test_so_does_a_run_that_was_resumed_while_a_client_was_away(six: Experiment) -> None:
    records = [updates(1, EVERYBODY), updates(2, EVERYBODY)]
    assert exposures(six, records) == (0, 0)
    assert exposures(six, [*records, updates(2, without(3), attempt=2)]) == (1, 0)


def test_sizes_in_every_sum_follow_from_one_absence(sized: Experiment) -> None:
    size = {"num_nodes": torch.zeros(1)}
    records = [updates(1, EVERYBODY, **size), updates(2, without(4), **size)]
    found = exposed(sized, records)
    assert {(t.client, t.quantity, t.round) for t in found} == {(4, "fedgl.Update.num_nodes", None)}


def test_so_do_the_nodes_of_a_client_from_rows_that_add_up(six: Experiment) -> None:
    records = [
        updates(1, EVERYBODY, predictions=rows(six)),
        updates(2, without(4), predictions=rows(six)),
    ]
    found = {t for t in exposed(six, records) if t.quantity.endswith("added up")}
    assert {t.client for t in found} == {4}
    today = [
        updates(1, EVERYBODY, predictions=rows(six, 1)),
        updates(2, without(4), predictions=rows(six, 1)),
    ]
    assert not any(t.quantity.endswith("added up") for t in exposed(six, today))


def test_participation_of_five_in_six_gave_all_lists(six: Experiment) -> None:
    records = [
        updates(round, without(round), predictions=rows(six), num_nodes=torch.zeros(1))
        for round in EVERYBODY
    ]
    constant = {t.client for t in exposed(six, records) if t.round is None}
    assert constant == set(EVERYBODY)


def test_a_victim_among_two_sybils_is_seen_by_them(six: Experiment) -> None:
    records = [updates(round, [0, 1, victim]) for round, victim in enumerate((2, 3, 4, 5), 1)]
    assert exposures(six, records) == (0, 0)
    assert {t.client for t in exposed(six, records, [0, 1])} == {2, 3, 4, 5}


def test_a_thinned_transcript_is_read_by_what_any_of_its_kind_kept(sized: Experiment) -> None:
    kept = updates(1, EVERYBODY, num_nodes=torch.zeros(1))
    thin = Record(**{**vars(updates(2, without(4))), "thinned": True, "body": b""})
    assert {(t.client, t.round) for t in exposed(sized, [kept, thin])} == {(4, None)}


def test_todays_sums_with_absences_give_nothing(six: Experiment) -> None:
    census = census_of(Update)
    assert census is not None
    counted = opened(census.reply, 1, EVERYBODY, holds=torch.zeros(six.public.num_nodes, 1))
    records = [counted, *(updates(r, without(r % 6)) for r in range(2, 9))]
    assert exposures(six, records)[0] == 0


def test_who_was_blamed_is_read_from_all_attempts(six: Experiment) -> None:
    drops = [
        Record(**{**vars(updates(1, [client], attempt)), "kind": "dropped", "note": note})
        for client, attempt, note in (
            (2, 1, "blamed: sent a bad key"),
            (3, 1, "RuntimeError"),
            (4, 2, "blamed: revealed a share that it was not dealt"),
        )
    ]
    wanted = {2: "sent a bad key", 4: "revealed a share that it was not dealt"}
    assert blamed_in([*drops, updates(2, EVERYBODY)]) == wanted


def test_suspicions_are_counted_over_all_attempts(six: Experiment) -> None:
    """Before, a client that kept its key closed had a second try after a restart of the server."""
    drops = [
        Record(**{**vars(updates(1, [client], attempt)), "kind": "dropped", "note": note})
        for client, attempt, note in (
            (2, 1, "suspected: did not open its key in a dispute"),
            (3, 1, "blamed: sent a bad key"),
            (2, 2, "suspected: did not open its key in a dispute"),
        )
    ]
    assert suspected_in([*drops, updates(2, EVERYBODY)]) == {2: 2}


# --------------------------------------------------------------- node by node, by exact elimination


ROUNDS = st.lists(st.sets(st.integers(0, 5), min_size=2), min_size=1, max_size=4)


@settings(max_examples=15, deadline=None)
@given(ROUNDS, st.booleans(), st.integers(0, 2**16), st.sets(st.integers(0, 5), max_size=2))
def test_rows_are_counted_as_exact_elimination_of_every_node_counts_them(
    six: Experiment, rounds: list[set[int]], whole: bool, seed: int, colluders: set[int]
) -> None:
    """Any nodes released, any clients away, any two that collude; rows whole or without a class."""
    let_in = torch.rand(six.public.num_nodes, generator=torch.Generator().manual_seed(seed)) < 0.5
    records = []
    for number, members in enumerate(rounds, 1):
        rows_sent = rows(six, 0 if whole else 1)
        records.append(asked(number, released=let_in, weights=torch.tensor([float(number)])))
        records.append(updates(number, sorted(members), predictions=rows_sent))
    row_counts: Counter[int] = Counter()
    for term in exposed(six, records, sorted(colluders)):
        row_counts[term.client] += term.count if term.part is not None else 0
    wanted: Counter[int] = Counter()
    for node in let_in.nonzero().flatten().tolist():
        holders = {c for c, own in enumerate(six.partition.clients) if node in own.tolist()}
        sums = []
        for number, members in enumerate(rounds, 1):
            sums.append({Term(c, "row", number): 1.0 for c in members & holders})
            if whole and holders:
                sums.append({Term(c, "added up", None): 1.0 for c in members})
        wanted.update(term.client for term in brute_force(sums, colluders))
    assert +row_counts == wanted


def asked(round: int, **fields: Tensor) -> Record:
    told = vars(opened(Update, round, EVERYBODY, **fields))
    return Record(**{**told, "sender": "server", "receivers": ("clients",), "kind": Globals.kind})
