"""Subset sums over all that an honest server is sent: whose nodes follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from audits.exposure import audit_exposures
from audits.findings.record import Finding, Verdict
from audits.truth import Truth
from securefg.foundation.errors import RoundAborted, SecurefgError
from securefg.methods.fedgl.algorithm import FedGLServer
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Adversary, Record, view
from securefg.runs import runner
from securefg.runs.opened import read_opened
from securefg.runs.recovered import recovered_by_algebra
from securefg.secagg import exposure as subset_exposure
from securefg.settings.config import RunConfig
from tests.small import config
from tests.unit.methods.lied_to import Deployed
from tests.unit.runs import weighed_census

SIX = "partition.shares=[0.301, 0.417, 0.502, 0.548, 0.611, 0.703]"
MASKED = "privacy.secure_aggregation={}"
THOUSAND = ("data.csbm.num_nodes=1000", "training.rounds=3")
CORA = ("data={name: cora}", "training.rounds=2")
Holders = frozenset[int]


def six(root: Path, *overrides: str, method: str = "fedgl") -> RunConfig:
    return config(root, MASKED, SIX, *overrides, method=method)


def true_holders(run: Deployed) -> dict[int, Holders]:
    x = run.experiment
    holders_by_node: dict[int, set[int]] = {node: set() for node in range(x.public.num_nodes)}
    for client, nodes in enumerate(x.partition.clients):
        for node in nodes.tolist():
            holders_by_node[node].add(client)
    return {node: frozenset(clients) for node, clients in holders_by_node.items()}


# ------------------------------------------------------- the attack: values alone, no other truth


def columns_seen(run: Deployed) -> Iterator[NDArray[np.float64]]:
    """Every column over the nodes that reached the server in the clear, and every row's total."""
    nodes = run.experiment.public.num_nodes
    for seen in view(run.folder.transcript, Adversary.parse("server")):
        for array in (seen.fields or {}).values():
            if isinstance(array, Tensor) and array.dim() and len(array) == nodes:
                columns = array.double().reshape(nodes, -1).numpy()
                yield from columns.T
                yield columns.sum(1)


def read_constants(column: NDArray[np.float64], num_clients: int) -> list[float]:
    """The values that are no subset sum of smaller ones: nodes with one holder have them."""
    constants: list[float] = []
    reached = np.zeros(1)
    for value in np.unique(column[column > 0]).tolist():
        if np.abs(reached - value).min() > 1e-3:
            constants.append(value)
            reached = np.unique(np.concatenate([reached, reached + value]).round(4))
        if len(constants) > num_clients:
            return []
    return constants if len(constants) == num_clients else []


def attack(run: Deployed, sizes: Sequence[int]) -> dict[int, Holders]:
    """Holders of nodes by subset sums of the clients' sizes, which the server may know, and of
    constants that it reads off the column. A column counts if it explains every node."""
    holders_by_node: dict[int, Holders] = {}
    for column in columns_seen(run):
        learned = read_constants(column, len(sizes))
        for constants in (list(map(float, sizes)), [1.0] * len(sizes), learned):
            subsets: dict[float, list[Holders]] = {}
            for bits in product((0, 1), repeat=len(constants)):
                members = frozenset(k for k, bit in enumerate(bits) if bit)
                subsets.setdefault(round(float(np.dot(bits, constants)), 2), []).append(members)
            totals = column.round(2).tolist()
            if constants and any(totals) and all(total in subsets for total in totals):
                for node, total in enumerate(totals):
                    if len(subsets[total]) == 1 and subsets[total][0]:
                        holders_by_node[node] = subsets[total][0]
    return holders_by_node


def rounds(run: Deployed, away: Sequence[set[int]]) -> Deployed:
    x = run.experiment
    with run.started() as (engine, cohort):
        server = x.method.make_server(x.public, x.config.method, x.config.training, cohort)
        assert isinstance(server, FedGLServer)
        for number, silent in enumerate(away, 1):
            cohort.begin_round(number)
            engine.silent = silent
            server.round(number)
    return run


def sizes_of(run: Deployed) -> list[int]:
    return [len(nodes) for nodes in run.experiment.partition.clients]


@pytest.mark.parametrize("data", [THOUSAND, CORA], ids=["drawn", "cora"])
@pytest.mark.parametrize("more", [(), ("method.fusion=renormalised",)], ids=["paper", "renorm"])
def test_subset_sums_of_masked_fedgl_resolve_no_node_but_those_of_everybody(
    data: tuple[str, ...], more: tuple[str, ...], tmp_path: Path
) -> None:
    run = rounds(Deployed.new(six(tmp_path, *data, *more)), [set(), set()])
    truth, everybody = true_holders(run), frozenset(range(6))
    assert len(set(sizes_of(run))) == 6
    holders_by_node = attack(run, sizes_of(run))
    assert set(holders_by_node.values()) <= {everybody}
    assert set(holders_by_node) == {node for node, holders in truth.items() if holders == everybody}
    told = recovered_by_algebra(run.experiment, run.records())
    assert told is not None
    assert told["holders_recoverable"] == len(holders_by_node | complete_rows(run))


def test_masked_rows_with_a_client_away_are_not_opened(tmp_path: Path) -> None:
    with pytest.raises(RoundAborted, match="6 are needed"):
        rounds(Deployed.new(six(tmp_path)), [set(), {2}])


def test_clients_open_no_rows_for_a_server_that_ignores_the_quorum(tmp_path: Path) -> None:
    run = Deployed.new(six(tmp_path))
    x = run.experiment
    with run.started() as (engine, cohort):
        server = x.method.make_server(x.public, x.config.method, x.config.training, cohort)
        server.round(1)
        assert cohort._aggregator is not None
        cohort._aggregator._least_survivors = {}
        cohort.begin_round(2)
        engine.silent = {2}
        with pytest.raises(SecurefgError, match="5 survivors, under the 6"):
            server.round(2)
    opened = [r for r in run.records() if r.kind == "fedgl.Update.sum"]
    assert [record.round for record in opened] == [1]


@pytest.fixture
def opened_over_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan without the rule that bare sums of rows are opened over all clients alone."""
    monkeypatch.setattr("securefg.privacy.policy._whole_sums", lambda *of: {})


@pytest.mark.usefixtures("opened_over_some")
def test_subset_sums_of_a_census_of_sizes_resolve_every_held_node(tmp_path: Path) -> None:
    chosen = six(tmp_path, *THOUSAND, f"method.name={weighed_census.NAME}")
    run = rounds(Deployed.new(chosen), [set(), {2}])
    truth = true_holders(run)
    held = {node: holders for node, holders in truth.items() if holders}
    assert attack(run, sizes_of(run)) == held
    told = recovered_by_algebra(run.experiment, run.records())
    assert told is not None
    assert told["holders_recoverable"] == len(held)


def test_plain_averaging_by_fedgl_opens_no_column_over_nodes(tmp_path: Path) -> None:
    halves = ("method.pseudo_labels=false", "method.pseudo_graph=false")
    run = rounds(Deployed.new(six(tmp_path, *halves)), [set(), {2}])
    assert not list(columns_seen(run))


# ------------------------------------------------------------------ what the run and the audit say


def holder_findings(root: Path, method: str) -> list[Finding]:
    folder = runner.start(six(root, *THOUSAND, f"method.name={method}")).folder
    found = audit_exposures(Truth.of(folder), 0)
    return [one for one in found if "of which a holder follows" in one.metric]


def test_audit_of_a_census_of_sizes_says_that_holders_follow(tmp_path: Path) -> None:
    (found,) = holder_findings(tmp_path, weighed_census.NAME)
    assert found.verdict is Verdict.LEAK
    assert found.value is not None
    assert found.value.value > 950


def test_audit_of_masked_fedgl_counts_the_nodes_of_everybody(tmp_path: Path) -> None:
    (found,) = holder_findings(tmp_path, "fedgl")
    assert found.value is not None
    assert 0 < found.value.value < 40


def thinned(record: Record) -> Record:
    return replace(record, thinned=bool(record.body), body=b"")


def test_holders_are_unknown_where_no_record_kept_the_census(tmp_path: Path) -> None:
    run = rounds(Deployed.new(six(tmp_path)), [set()])
    told = recovered_by_algebra(run.experiment, map(thinned, run.records()))
    assert told is not None
    assert told["holders_recoverable"] is None


def test_holders_are_unknown_where_subset_sums_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = six(tmp_path, f"method.name={weighed_census.NAME}")
    run = rounds(Deployed.new(chosen), [set()])
    monkeypatch.setattr(subset_exposure, "MOST_SUBSETS", 32)
    told = recovered_by_algebra(run.experiment, run.records())
    assert told is not None
    assert told["holders_recoverable"] is None
    truth = Truth.of(runner.start(replace_root(chosen, tmp_path / "whole")).folder)
    (found,) = [f for f in audit_exposures(truth, 0) if "of which a holder follows" in f.metric]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "not solved" in found.because


def replace_root(chosen: RunConfig, root: Path) -> RunConfig:
    output = chosen.output.model_copy(update={"root": root})
    return chosen.model_copy(update={"output": output})


def test_holders_are_unknown_at_a_server_without_the_clients_data(tmp_path: Path) -> None:
    run = rounds(Deployed.new(six(tmp_path)), [set()])
    deployed = replace(run.experiment, has_truth=False)
    told = recovered_by_algebra(deployed, run.records())
    assert told is not None
    assert told["holders_recoverable"] is None
    assert read_opened(deployed.method, run.records())


def complete_rows(run: Deployed) -> dict[int, Holders]:
    """Holders by the bound of probabilities: a sum above the count less one has all holders in it.
    From values and from who was there, without other truth."""
    nodes, everybody = run.experiment.public.num_nodes, frozenset(range(6))
    count, others = np.zeros(nodes), [set[int]() for _ in range(nodes)]
    for seen_message in view(run.folder.transcript, Adversary.parse("server")):
        fields = seen_message.fields or {}
        if seen_message.header.kind == "fedgl.UpdateCensus.sum":
            count = np.asarray(fields["holds"]).reshape(-1).round()
        if seen_message.header.kind == "fedgl.Update.sum":
            away = everybody - set(Clients.parse(seen_message.header.clients).numbers())
            total = np.asarray(fields["predictions"]).sum(1)
            for node in np.flatnonzero(total > count - 1 + 1e-3).tolist():
                others[node] |= away
    return {
        node: everybody - others[node]
        for node in range(nodes)
        if count[node] and len(others[node]) == 6 - count[node]
    }


SURE = (
    "training.rounds=7",
    "training.local_epochs=60",
    "training.lr=0.05",
    "training.weight_decay=0",
    "method={name: fedgl, pseudo_graph: false, dropout: 0}",
)


@pytest.mark.usefixtures("opened_over_some")
def test_sure_models_and_absent_clients_name_holders_and_the_run_counts_them(
    tmp_path: Path,
) -> None:
    """Once the run told of the nodes of everybody alone, whatever the absent clients showed."""
    away: list[set[int]] = [set(), *({client} for client in range(6))]
    run = rounds(Deployed.new(six(tmp_path, "data.csbm.num_nodes=1000", *SURE)), away)
    truth, holders_by_node = true_holders(run), complete_rows(run)
    of_everybody = sum(len(holders) == 6 for holders in truth.values())
    assert all(truth[node] == holders for node, holders in holders_by_node.items())
    assert len(holders_by_node) > 100 + of_everybody
    told = recovered_by_algebra(run.experiment, run.records())
    assert told is not None
    # The run's tolerance is finer than the one above.
    assert len(holders_by_node) <= told["holders_recoverable"] <= 1.02 * len(holders_by_node)
