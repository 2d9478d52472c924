"""A FedGL server that asks for rows without a census, or for others than before, gets none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from securefg.engines.inprocess import InProcess
from securefg.federation.federation import Federation, Secure
from securefg.foundation.errors import PrivacyError
from securefg.methods.fedgl import Count, FedGLServer, Globals, Held, Update
from securefg.privacy.ledger import Ledger
from securefg.protocol.messages import Message
from securefg.protocol.transcript import TranscriptWriter
from securefg.run.assembly import enrol, prepare, start_engine
from securefg.run.folder import RunFolder
from securefg.secagg.errors import AskedBefore
from tests.small import config

MASKED = "privacy.secure_aggregation={}"


@pytest.fixture
def lying(tmp_path: Path) -> Iterator[tuple[FedGLServer, Federation]]:
    chosen = config(tmp_path, MASKED)
    x = prepare(chosen)
    folder = RunFolder.create(chosen, lambda path: None)
    secure = enrol(x, folder)
    assert isinstance(secure, Secure)
    engine = start_engine(x, folder, 1, secure)
    assert isinstance(engine, InProcess)
    ledger, transcript = Ledger(3), TranscriptWriter(folder.transcript)
    federation = Federation(engine, x.policy, ledger, transcript, secure=secure)
    server = FedGLServer(x.public, chosen.method, chosen.training, federation)
    federation.begin_round(1)
    yield server, federation
    transcript.close()


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
    with pytest.raises(PrivacyError, match="other nodes are released than before"):
        sums_of(federation, wider)


def test_the_census_is_taken_once(lying: tuple[FedGLServer, Federation]) -> None:
    _, federation = lying
    count = Count(index_size=120)
    federation.ask(count, Held)
    federation.begin_round(2)
    with pytest.raises(AskedBefore, match="never changes and left in round 1"):
        federation.ask(count, Held)
