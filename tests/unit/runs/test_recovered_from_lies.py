"""What real clients let a lying server sum is found in its transcript, to the row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import RoundAborted
from securefg.methods.fedavg.algorithm import Globals as Model
from securefg.methods.fedavg.algorithm import Update as Trained
from securefg.methods.fedgl.algorithm import FedGLServer
from securefg.methods.fedgl.messages import Globals, Update
from securefg.methods.ppfl_deepwalk.algorithm import DeepWalkServer
from securefg.privacy.masking_plan import MaskedField
from securefg.protocol import codec
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Record
from securefg.runs.opened import read_opened
from securefg.runs.recovered import count_exposures, find_exposed
from securefg.secagg.exposure import Term, exposed_terms, num_exposed
from securefg.settings.config import parse_config
from tests.small import config, tree
from tests.unit.methods.lied_to import Deployed

SIX = "partition.shares=[0.5, 0.6, 0.7, 0.5, 0.6, 0.4]"
MASKED = "privacy.secure_aggregation={}"


def held_by(run: Deployed, *clients: int) -> Counter[int]:
    """By node, how many of these clients hold it."""
    nodes = run.experiment.partition.clients
    return Counter(node for client in clients for node in nodes[client].tolist())


def recovered(run: Deployed) -> tuple[int | None, int | None]:
    return count_exposures(run.experiment, read_opened(run.experiment.method, run.records()))


def test_rows_of_one_holder_that_a_lie_about_the_census_released_are_counted(
    tmp_path: Path,
) -> None:
    run = Deployed.new(config(tmp_path, MASKED, SIX))
    x = run.experiment
    with run.started() as (_, cohort):
        server = FedGLServer(x.public, x.config.method, x.config.training, cohort)
        everything = torch.ones(x.public.num_nodes, dtype=torch.bool)
        asked = Globals(**{**server._globals.values(), "released": everything})
        cohort.ask(asked, Update)
    alone = sum(count == 1 for count in held_by(run, *range(6)).values())
    assert alone > 0
    assert recovered(run) == (0, 2 * alone)  # predictions and embeddings


def test_rows_whose_other_holder_fell_silent_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a plan without the rule that bare sums of rows are opened over all clients alone."""
    monkeypatch.setattr("securefg.privacy.policy._whole_sums", lambda *of: {})
    run = Deployed.new(config(tmp_path, MASKED, SIX))
    x = run.experiment
    with run.started() as (engine, cohort):
        server = FedGLServer(x.public, x.config.method, x.config.training, cohort)
        server.round(1)
        engine.silent = {2}
        cohort.begin_round(2)
        server.round(2)
    whole, rest = held_by(run, *range(6)), held_by(run, 0, 1, 3, 4, 5)
    alone = sum(count >= 2 and rest[node] == 1 for node, count in whole.items())
    assert alone > 0
    assert recovered(run) == (0, 2 * alone)


def test_public_rows_of_the_others_do_not_follow_when_one_is_away(tmp_path: Path) -> None:
    """Every client is in the sum of every public node, whether or not the node has an edge."""
    whole = tree(tmp_path, "ppfl_deepwalk")
    whole["data"]["csbm"] |= {"degree": 4, "graph_signal": 1}
    whole["method"] |= {"alignment": "reference", "start": "shared"}
    whole["method"] |= {"dim": 8, "walk_length": 10}
    whole["partition"] = {"name": "public_private", "num_clients": 4, "public_share": 0.15}
    whole["privacy"] = {"secure_aggregation": {"malicious": False}}
    run = Deployed.new(parse_config(whole))
    x = run.experiment
    with run.started() as (engine, cohort):
        server = DeepWalkServer(x.public, x.config.method, x.config.training, cohort)
        server.round(1)
        engine.silent = {0}
        cohort.begin_round(2)
        server.round(2)
    found = find_exposed(x, read_opened(x.method, run.records()))
    assert not found


def fedavg(tmp_path: Path) -> tuple[Deployed, Model]:
    run = Deployed.new(config(tmp_path, MASKED, SIX, method="fedavg"))
    x = run.experiment
    planned = x.method.planned(x.config.method, x.config.training, x.public)
    return run, Model(weights=torch.linspace(-1, 1, planned[0].dim))


def test_one_model_in_two_rounds_gives_the_upload_of_who_was_away_in_one(tmp_path: Path) -> None:
    run, model = fedavg(tmp_path)
    sums = []
    with run.started() as (engine, cohort):
        for round, silent in ((1, set()), (2, {0})):
            engine.silent = silent
            cohort.begin_round(round)
            sums.append(cohort.ask(model, Trained).sum("weights"))
    assert recovered(run) == (1, 0)
    assert not torch.equal(sums[0], sums[1])


def test_other_models_in_other_rounds_do_not(tmp_path: Path) -> None:
    run, model = fedavg(tmp_path)
    with run.started() as (engine, cohort):
        for round, silent in ((1, set()), (2, {0})):
            engine.silent = silent
            cohort.begin_round(round)
            cohort.ask(Model(weights=round * model.weights), Trained)
    assert recovered(run) == (0, 0)


def test_a_sum_that_is_not_used_is_on_record_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has it; the same model in the next round, a client fewer, shows that client's."""
    run, model = fedavg(tmp_path)

    def refused(*arguments: object) -> None:
        raise RoundAborted("it passes what all of them could send")

    with run.started() as (engine, cohort):
        with monkeypatch.context() as patch:
            patch.setattr(MaskedField, "require_bound", refused)
            with pytest.raises(RoundAborted, match="passes what all"):
                cohort.ask(model, Trained)
        engine.silent = {0}
        cohort.begin_round(2)
        cohort.ask(model, Trained)
    assert [r.round for r in run.records() if r.sender == "sum"] == [1, 2]
    assert recovered(run) == (1, 0)


def thinned(record: Record) -> Record:
    return Record(**{**vars(record), "thinned": bool(record.body), "body": b""})


def test_rows_are_unknown_where_no_record_tells_what_was_in_the_sums(tmp_path: Path) -> None:
    run = Deployed.new(config(tmp_path, MASKED, SIX))
    x = run.experiment
    with run.started() as (_, cohort):
        FedGLServer(x.public, x.config.method, x.config.training, cohort).round(1)
    records = run.records()
    assert count_exposures(x, read_opened(x.method, records)) == (0, 0)
    assert count_exposures(x, read_opened(x.method, map(thinned, records))) == (0, None)


def test_a_field_whose_sums_do_not_change_is_one_that_never_changes(tmp_path: Path) -> None:
    """Nobody declared it: three rounds over two sets of clients give it away all the same."""
    run, _ = fedavg(tmp_path)
    method = run.experiment.method
    same = torch.arange(1.0, 4.0)
    rounds = [(1, range(6), same), (2, range(6), same), (3, range(1, 6), same - 1)]
    models_by_round = {
        round: Model(weights=torch.full((2,), float(round))) for round, _, _ in rounds
    }
    records = [
        record
        for round, clients, total in rounds
        for record in (
            _record(round, "server", Model.kind, clients, models_by_round[round].weights),
            _record(round, "sum", f"{Trained.kind}.sum", clients, total),
        )
    ]
    found = find_exposed(run.experiment, read_opened(method, records))
    assert {(term.client, term.round) for term in found} == {(0, None)}


def _record(round: int, sender: str, kind: str, clients: range, weights: torch.Tensor) -> Record:
    return Record(
        seq=1,
        round=round,
        step=1,
        attempt=1,
        seconds=0.0,
        sender=sender,
        receivers=("server",) if sender == "sum" else ("clients",),
        kind=kind,
        clients=str(Clients.of(list(clients))),
        payload=0,
        envelope=0,
        body=codec.encode_fields({"weights": weights}),
    )


@pytest.mark.parametrize("away", [set(), {7}])
def test_ten_thousand_clients_are_solved_for(away: set[int]) -> None:
    everybody = set(range(10_000))
    sums = [
        {Term(c, "size", None): 1.0 for c in everybody},
        {Term(c, "size", None): 1.0 for c in everybody - away},
    ]
    assert num_exposed(exposed_terms(sums)) == len(away)
