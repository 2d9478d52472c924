"""A FLARE server that is called before it has its key signs and checks with it afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.message import Message
from nvflare.private.defs import CellMessageHeaderKeys
from nvflare.private.fed.server.fed_server import FederatedServer

from securefg.flare.guard.repairs import UNSIGNED, sign_with_the_key


class Asserter:
    def sign(self, text: str, return_str: bool) -> str:
        return f"signature of {text}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What signing needs of a server; it has no key at first."""
    for name in ("_add_auth_headers", "verify_auth_token"):
        monkeypatch.setattr(FederatedServer, name, getattr(FederatedServer, name))
    flare_server: Any = FederatedServer.__new__(FederatedServer)
    flare_server.my_own_auth_client_name = flare_server.my_own_token = "server"
    flare_server.my_own_token_signature, flare_server.key = None, None
    flare_server.logger = SimpleNamespace(debug=lambda text: None)
    monkeypatch.setattr(FederatedServer, "_get_id_asserter", lambda self: self.key)
    return flare_server


def signature(server: Any) -> str:
    message = Message()
    server._add_auth_headers(message)
    return str(message.get_header(CellMessageHeaderKeys.TOKEN_SIGNATURE))


def test_flare_keeps_what_it_could_not_sign(server: Any) -> None:
    """Else there would be nothing to mend."""
    assert signature(server) == UNSIGNED
    server.key = Asserter()
    assert signature(server) == UNSIGNED
    server.key = None
    assert server.verify_auth_token("anybody", "token", "forged") is True


def test_it_signs_as_soon_as_it_can(server: Any) -> None:
    sign_with_the_key()
    assert signature(server) == UNSIGNED
    server.key = Asserter()
    assert signature(server) == "signature of serverserver"


def test_without_a_key_it_believes_nobody(server: Any) -> None:
    sign_with_the_key()
    assert server.verify_auth_token("anybody", "token", "forged") is False
