"""Repairs of FLARE's own code, put in when a guarded process starts.

Frames without copies: FLARE makes a frame by shrinking and growing a buffer, and takes the payload
out of a frame by copying it. With payloads of hundreds of megabytes most of the time went into
memory that was fetched from the system and given back. The bytes on the wire are the same.

Registration: FLARE's server listens before it can answer. Its client then ends, and a script of
FLARE's starts it anew. Kits have no such script, so a site asks again.

Signatures: until FLARE's server has read its key it signs with a word in place of a signature, and
keeps that word for all that it ever sends: administrators refuse it until it is started anew. What
it receives until then it takes for genuine. Here a server signs and checks with its key, or not at
all.

Late connections: a session that FLARE closes while its connection is being made waits for that
connection for ever. `securefg deploy submit` hung when the server had just been started.

Dead sites: FLARE's server holds a job's result back for 10 to 15 minutes while a site that died has
not told how its part ended, and then may call the job failed. For us such a site is a drop-out, and
the result is there after a few seconds.
"""

from __future__ import annotations

import time
from typing import Any, Final

from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

from securefg.flare.guard.terminal import tell_user

LARGE: Final = 64 * 1024
"""Smaller frames are FLARE's own: it decodes some of them as objects, for which it wants bytes."""


def send_frame(self: Any, prefix: Any, headers: dict[str, Any] | None, payload: Any) -> None:
    """As `SfmConnection.send_frame`, with one copy."""
    start, head = bytearray(PREFIX_LEN), self.headers_to_bytes(headers) or b""
    prefix.header_len, prefix.length = len(head), PREFIX_LEN + len(head) + len(payload or b"")
    prefix.sequence = self.next_sequence()
    prefix.to_buffer(start, 0)
    frame = b"".join((start, head, payload or b""))
    with self.lock:  # frames of several threads must not interleave
        with self.send_state_lock:
            self.send_started_at = time.monotonic()
        try:
            self.conn.send_frame(frame)
        finally:
            with self.send_state_lock:
                self.send_started_at = 0.0


def make_frames_without_copies() -> None:
    """Make and read the frames of this process without copies from now on."""
    read = SocketConnection.read_frame

    def read_frame(self: Any) -> Any:
        frame = read(self)
        return frame if len(frame) < LARGE else memoryview(frame)

    SocketConnection.read_frame = read_frame
    SfmConnection.send_frame = send_frame


def drop_late_connections() -> None:
    """Do not read from a connection that was made after its connector was stopped."""
    read_loop = SocketConnection.read_loop

    def read_unless_stopped(self: Any) -> None:
        # A stop marks the connector first and closes the connections that it knows afterwards; a
        # connection is known before it is read.
        if not self.connector.stopped.is_set():
            read_loop(self)

    SocketConnection.read_loop = read_unless_stopped


PATIENCE_SECONDS = 300.0
PAUSE_SECONDS = 1.0


def ask_again() -> None:
    """Register this process again until it has its token, or patience ends."""
    from nvflare.private.fed.client.fed_client_base import FederatedClientBase

    register = FederatedClientBase.client_register

    def client_register(self: Any, project_name: str, fl_ctx: Any) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        register(self, project_name, fl_ctx)
        while not self.token and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
            self.communicator.heartbeat_done = False  # FLARE gave up with the first refusal
            register(self, project_name, fl_ctx)
        if self.token:
            tell_user(f"{self.client_name}: connected to the server")

    FederatedClientBase.client_register = client_register


UNSIGNED = "NA"
"""FLARE's word for a signature that could not be made."""


def sign_with_the_key() -> None:
    """Make this process's signature anew until it is one, and believe none that it cannot check."""
    from nvflare.private.fed.server.fed_server import FederatedServer

    add, verify = FederatedServer._add_auth_headers, FederatedServer.verify_auth_token

    def add_auth_headers(self: Any, message: Any) -> None:
        if self.my_own_token_signature == UNSIGNED:
            self.my_own_token_signature = None
        add(self, message)

    def verify_auth_token(self: Any, client_name: str, token: str, signature: Any) -> bool:
        return bool(self._get_id_asserter() and verify(self, client_name, token, signature))

    FederatedServer._add_auth_headers = add_auth_headers
    FederatedServer.verify_auth_token = verify_auth_token


OUTCOME_SECONDS = 10.0
"""How long a job's result waits for sites that have not told how their part ended."""


def let_dead_sites_go() -> None:
    """Let this server finish a job by its own outcome, whatever became of a site."""
    from nvflare.private.fed.server.fed_server import FederatedServer
    from nvflare.private.fed.server.job_runner import JobRunner

    begin = JobRunner.__init__

    def init(self: Any, *args: Any, **kw: Any) -> None:
        begin(self, *args, **kw)
        self.client_outcome_wait_timeout = OUTCOME_SECONDS

    def resolve(self: Any, client: Any, job_id: str, reason: str) -> None:
        self.engine.job_runner.resolve_client_outcome(job_id, client.name)

    JobRunner.__init__ = init
    FederatedServer._resolve_missing_client_outcome = resolve
