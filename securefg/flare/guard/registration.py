"""A site that comes while the server is still starting asks again.

FLARE's server listens before it can answer; its client then ends, and a script of FLARE's starts it
anew. Kits have no such script.
"""

from __future__ import annotations

import time
from typing import Any

from nvflare.private.fed.client.fed_client_base import FederatedClientBase

PATIENCE_SECONDS = 300.0
PAUSE_SECONDS = 1.0


def ask_again() -> None:
    """From now on this process registers until it has its token, or patience ends."""
    register = FederatedClientBase.client_register

    def client_register(self: Any, project_name: str, fl_ctx: Any) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        register(self, project_name, fl_ctx)
        while not self.token and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            self.communicator.heartbeat_done = False  # FLARE gave up with the first refusal
            register(self, project_name, fl_ctx)

    FederatedClientBase.client_register = client_register
