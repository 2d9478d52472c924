"""A server signs and checks with its key, or not at all.

FLARE's server listens before it has read its key. What it sends until then it signs with a word in
place of a signature, and keeps that word for all that it ever sends: administrators refuse it until
it is started anew. What it receives until then it takes for genuine.
"""

from __future__ import annotations

from typing import Any

from nvflare.private.fed.server.fed_server import FederatedServer

UNSIGNED = "NA"
"""FLARE's word for a signature that could not be made."""


def sign_with_the_key() -> None:
    """From now on this process makes its signature anew until it is one, and believes none that it
    cannot check."""
    add, verify = FederatedServer._add_auth_headers, FederatedServer.verify_auth_token

    def add_auth_headers(self: Any, message: Any) -> None:
        if self.my_own_token_signature == UNSIGNED:
            self.my_own_token_signature = None
        add(self, message)

    def verify_auth_token(self: Any, client_name: str, token: str, signature: Any) -> bool:
        return bool(self._get_id_asserter() and verify(self, client_name, token, signature))

    FederatedServer._add_auth_headers = add_auth_headers
    FederatedServer.verify_auth_token = verify_auth_token
