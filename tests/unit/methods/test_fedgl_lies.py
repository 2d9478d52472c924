"""A FedGL server that asks for rows without a census, or for others than before, gets none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from securefg.engines.inprocess import InProcess
from securefg.federation.federation import Federation, Secure
from securefg.foundation.errors import PrivacyError
from securefg.methods.fedgl.algorithm import FedGLServer
from securefg.methods.fedgl.messages import Count, Globals, Held, Update
from securefg.privacy.ledger import Ledger
from securefg.protocol.messages import Message
from securefg.protocol.transcript import TranscriptWriter
from securefg.run.assembly import Experiment, enrol, prepare, start_engine
from securefg.run.folder import RunFolder
from securefg.secagg.errors import AskedBefore, MemoryDamaged
from tests.small import config

MASKED = "privacy.secure_aggregation={}"


@dataclass
class Deployed:
    """A run that can be started again and again over the same folder."""

    experiment: Experiment
    folder: RunFolder
    secure: Secure

    @classmethod
    def new(cls, path: Path, *overrides: str) -> Deployed:
        chosen = config(path, MASKED, *overrides)
        x = prepare(chosen)
        folder = RunFolder.create(chosen, lambda path: None)
        secure = enrol(x, folder)
        assert secure is not None
        return cls(x, folder, secure)

    @contextmanager
    def started(self, attempt: int = 1) -> Iterator[tuple[FedGLServer, Federation]]:
        x = self.experiment
        engine = start_engine(x, self.folder, attempt, self.secure)
        assert isinstance(engine, InProcess)
        ledger = Ledger(3, self.folder.ledger_path)
        transcript = TranscriptWriter(self.folder.transcript)
        federation = Federation(engine, x.policy, ledger, transcript, secure=self.secure)
        server = FedGLServer(x.public, x.config.method, x.config.training, federation)
        federation.begin_round(1)
        yield server, federation
        transcript.close()


@pytest.fixture
def lying(tmp_path: Path) -> Iterator[tuple[FedGLServer, Federation]]:
    with Deployed.new(tmp_path).started() as both:
        yield both


def sums_of(federation: Federation, request: Message) -> torch.Tensor:
    return federation.ask(request, Update).sum("embeddings")


def test_rows_without_a_count_of_holders_are_refused(lying: tuple[FedGLServer, Federation]) -> None:
    server, federation = lying
    with pytest.raises(PrivacyError, match="without a count of holders"):
        sums_of(federation, server._globals)


def test_other_nodes_than_before_are_refused(lying: tuple[FedGLServer, Federation]) -> None:
    server, federation = lying
    server.round(1)
    federation.begin_round(2)
    values = server._globals.values()
    wider = Globals(**{**values, "released": torch.ones_like(server._globals.released)})
    with pytest.raises(PrivacyError, match=r"fedgl\.released is another than before"):
        sums_of(federation, wider)


def test_the_census_is_taken_once(lying: tuple[FedGLServer, Federation]) -> None:
    _, federation = lying
    count = Count(index_size=120)
    federation.ask(count, Held)
    federation.begin_round(2)
    with pytest.raises(AskedBefore, match="never changes and left in round 1"):
        federation.ask(count, Held)


def test_nor_after_a_restart_that_no_checkpoint_is_loaded_in(tmp_path: Path) -> None:
    run = Deployed.new(tmp_path)
    with run.started() as (server, _):
        server.round(1)
        values = server._globals.values()
    wider = Globals(**{**values, "released": torch.ones_like(values["released"])})
    with run.started(2) as (_, federation):
        federation.begin_round(2)
        with pytest.raises(PrivacyError, match=r"fedgl\.released is another than before"):
            sums_of(federation, wider)


@pytest.mark.parametrize("lost", ["deleted", "emptied", "set back"])
def test_clients_whose_books_say_more_than_they_remember_start_no_more(
    lost: str, tmp_path: Path
) -> None:
    run = Deployed.new(tmp_path)
    with run.started() as (server, federation):
        server.round(1)
        path = run.folder.memories / "client-0.jsonl"
        after_one = path.read_bytes()
        federation.begin_round(2)
        server.round(2)
    whole = path.read_bytes()
    if lost == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"" if lost == "emptied" else after_one)
    with pytest.raises(MemoryDamaged, match="the books say that clients 0 sent"):
        start_engine(run.experiment, run.folder, 2, run.secure)
    path.write_bytes(whole)
    start_engine(run.experiment, run.folder, 2, run.secure)


def test_of_two_servers_of_one_run_the_second_gets_nothing(tmp_path: Path) -> None:
    """Two processes with the same clients: what one answers, the other does not know of."""
    run = Deployed.new(tmp_path)
    with run.started() as (server, _), run.started() as (other, second):
        server.round(1)
        with pytest.raises(MemoryDamaged, match="another process wrote to it"):
            other.round(1)
        second.begin_round(2)
        with pytest.raises(MemoryDamaged, match="another process wrote to it"):
            other.round(2)
