"""A host answers with its method's messages alone: keys are no way out for data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.engines.inprocess import InProcess
from securefg.foundation.errors import ProtocolError
from securefg.methods.fedavg import algorithm as fedavg
from securefg.protocol import codec
from securefg.protocol.codec import Envelope
from securefg.runs.assembly import prepare, start_engine
from securefg.runs.folder import RunFolder
from securefg.secagg import messages as secagg
from tests.small import config


def test_a_host_that_answers_with_a_key_message_sends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = prepare(config(tmp_path, "method={name: fedavg}"))
    folder = RunFolder.create(experiment.config, lambda path: None, False)
    engine = start_engine(experiment, folder, 1, None)
    assert isinstance(engine, InProcess)
    endpoint = next(iter(engine._endpoints.values()))
    smuggled = secagg.Redone(number=1)
    monkeypatch.setattr(type(endpoint.host), "handle", lambda self, request, turn: smuggled)
    length = endpoint.admission._plan.bounds["fedavg.Globals", "weights"].shape[0]
    asked = fedavg.Globals(weights=torch.zeros(length))
    body, own = codec.encode(asked), endpoint.clients
    request = Envelope(1, 1, 1, "server", endpoint.name, asked.kind, own, body)
    with pytest.raises(ProtocolError, match="is no message of"):
        endpoint.answer(codec.frame(request))
