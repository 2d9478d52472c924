"""A site whose server still starts does not end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")
from nvflare.apis.fl_exception import FLCommunicationError
from nvflare.private.fed.client.fed_client_base import FederatedClientBase

from securefg.flare.guard import repairs


class Answers:
    """A server that cannot answer yet, `early` times; FLARE stops its heartbeat then."""

    def __init__(self, early: int) -> None:
        self.early, self.heartbeat_done = early, False

    def client_registration(self, *asked: Any) -> tuple[str, str, str]:
        self.early -= 1
        if self.early >= 0:
            raise FLCommunicationError("no handler")
        return "token", "signature", "ssid"


def registered(early: int) -> Any:
    facts = SimpleNamespace(set_prop=lambda *words, **more: None)
    client = SimpleNamespace(token=None, client_name="bank-a", communicator=Answers(early))
    client.fl_ctx, client.logger = facts, SimpleNamespace(info=lambda text: None)
    FederatedClientBase.client_register(client, "securefg", facts)
    return client


def test_a_site_that_came_early_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    own = FederatedClientBase.client_register
    monkeypatch.setattr(FederatedClientBase, "client_register", own)  # put back after the test
    monkeypatch.setattr(repairs, "PAUSE_SECONDS", 0.0)
    assert registered(2).token is None  # FLARE's own program would end
    repairs.ask_again()
    late = registered(2)
    assert (late.token, late.communicator.heartbeat_done) == ("token", False)
    monkeypatch.setattr(repairs, "PATIENCE_SECONDS", 0.0)
    assert registered(2).token is None
