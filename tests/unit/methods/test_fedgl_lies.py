"""A FedGL server that asks for rows without a census, or for others than before, gets none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from securefg.federation.federation import Federation
from securefg.foundation.errors import PrivacyError, ProtocolError
from securefg.methods.fedgl.algorithm import FedGLServer
from securefg.methods.fedgl.messages import Globals, Update
from securefg.models.pseudo_graph import received_graph
from securefg.protocol.messages import Message, census_of
from securefg.runs.assembly import start_engine
from securefg.secagg.errors import MemoryDamaged
from tests.small import config
from tests.unit.methods.lied_to import Deployed

MASKED = "privacy.secure_aggregation={}"


def deployed(path: Path, *overrides: str) -> Deployed:
    return Deployed.new(config(path, MASKED, *overrides))


@contextmanager
def started(run: Deployed, attempt: int = 1) -> Iterator[tuple[FedGLServer, Federation]]:
    x = run.experiment
    with run.started(attempt) as (_, federation):
        yield FedGLServer(x.public, x.config.method, x.config.training, federation), federation


@pytest.fixture
def lying(tmp_path: Path) -> Iterator[tuple[FedGLServer, Federation]]:
    with started(deployed(tmp_path)) as both:
        yield both


def all_rows(server: FedGLServer) -> Globals:
    """What a liar sends: every node is said to have enough holders."""
    everything = torch.ones(server._info.num_nodes, dtype=torch.bool)
    return Globals(**{**server._globals.values(), "released": everything})


def sums_of(federation: Federation, request: Message) -> torch.Tensor:
    """Ask past the federation's own census: a server that lies takes none."""
    return federation._ask_masked(request, Update, None).sum("embeddings")


def test_rows_without_a_count_of_holders_are_refused(lying: tuple[FedGLServer, Federation]) -> None:
    server, federation = lying
    with pytest.raises(PrivacyError, match="without a count of holders"):
        sums_of(federation, server._globals)


def test_other_nodes_than_before_are_refused(lying: tuple[FedGLServer, Federation]) -> None:
    server, federation = lying
    server.round(1)
    federation.begin_round(2)
    wider = all_rows(server)
    with pytest.raises(PrivacyError, match=r"fedgl\.released is another than before"):
        sums_of(federation, wider)


def test_the_census_is_taken_once(lying: tuple[FedGLServer, Federation]) -> None:
    _, federation = lying
    census = census_of(Update)
    assert census is not None
    federation.ask(census.asked_in(1), census.reply)
    federation.begin_round(2)
    with pytest.raises(PrivacyError, match="found a request in 2 rounds; expected 1"):
        federation.ask(census.asked_in(2), census.reply)


def test_census_of_a_checkpoint_is_not_taken_again(tmp_path: Path) -> None:
    run = deployed(tmp_path)
    with started(run) as (server, federation):
        server.round(1)
        model, counted = server.state(), federation.censuses.state()
    assert list(counted) == ["census.fedgl.Update/holds"]
    with started(run, 2) as (server, federation):
        server.restore(model)
        federation.censuses.restore(counted)
        federation.begin_round(2)
        server.round(2)
    sums = [r.kind for r in run.records() if r.sender == "sum"]
    assert sums == ["fedgl.UpdateCensus.sum", "fedgl.Update.sum", "fedgl.Update.sum"]


def test_nor_after_a_restart_that_no_checkpoint_is_loaded_in(tmp_path: Path) -> None:
    run = deployed(tmp_path)
    with started(run) as (server, _):
        server.round(1)
    wider = all_rows(server)
    with started(run, 2) as (_, federation):
        federation.begin_round(2)
        with pytest.raises(PrivacyError, match=r"fedgl\.released is another than before"):
            sums_of(federation, wider)


@pytest.mark.parametrize("lost", ["deleted", "emptied", "set back"])
def test_clients_whose_books_say_more_than_they_remember_start_no_more(
    lost: str, tmp_path: Path
) -> None:
    run = deployed(tmp_path)
    with started(run) as (server, federation):
        server.round(1)
        path = run.folder.memories / "client-0.jsonl"
        after_one, count = path.read_bytes(), path.with_name("client-0.jsonl.head")
        counted = count.read_bytes()
        federation.begin_round(2)
        server.round(2)
    whole, last = path.read_bytes(), count.read_bytes()
    count.unlink() if lost != "set back" else count.write_bytes(counted)
    if lost == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"" if lost == "emptied" else after_one)
    with pytest.raises(MemoryDamaged, match="the books say that clients 0 sent"):
        start_engine(run.experiment, run.folder, 2, run.secure)
    path.write_bytes(whole)
    count.write_bytes(last)
    start_engine(run.experiment, run.folder, 2, run.secure)


def test_of_two_servers_of_one_run_the_second_gets_nothing(tmp_path: Path) -> None:
    """Two processes with the same clients: what one answers, the other does not know of."""
    run = deployed(tmp_path)
    with started(run) as (server, _), started(run) as (other, second):
        server.round(1)
        with pytest.raises(MemoryDamaged, match="another process wrote to it"):
            other.round(1)
        second.begin_round(2)
        with pytest.raises(MemoryDamaged, match="another process wrote to it"):
            other.round(2)


@pytest.mark.parametrize(
    "counts", [[2**40, 0, 0, 0], [2**62] * 4, [-1, 4, 0, 0], [1, 1, 1, 1], [3, 0, 0, 0]]
)
def test_a_small_pseudo_graph_is_not_written_out_as_a_huge_one(counts: list[int]) -> None:
    """Four counts of 2^62 add up to nothing: every one is looked at."""
    parts = (torch.tensor(counts), torch.tensor([1, 0]), torch.ones(2))
    with pytest.raises(ProtocolError, match="counts do not add up"):
        received_graph(Globals.kind, *parts)
