"""A line between real sites and their server that can be cut, and that keeps what went over it."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from pathlib import Path

from securefg.flare.kits import Kits


class Line:
    """A forwarder to the server's port. While it is cut it passes nothing on and closes nothing."""

    def __init__(self, port: int, keeps: bool = False) -> None:
        self.cut = threading.Event()
        self.passed: list[bytearray] = []  # per connection and direction, where it is kept
        self._port, self._keeps = port, keeps
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def put_before(self, kits: Kits, site: str) -> None:
        """Have a site's kit go this way to the server."""
        path: Path = kits.site(site) / "startup" / "fed_client.json"
        facts = json.loads(path.read_text())
        facts["servers"][0]["service"]["target"] = f"localhost:{self.port}"
        path.write_text(json.dumps(facts))

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        far: socket.socket | None = None
        try:
            far = self._reach()
            kept = {near: bytearray(), far: bytearray()}
            if self._keeps:
                self.passed += kept.values()
            while True:
                for end in select.select([near, far], [], [], 0.05)[0]:
                    while self.cut.is_set():
                        time.sleep(0.02)
                    data = end.recv(65536)
                    if not data:
                        return
                    if self._keeps:
                        kept[end] += data
                    (far if end is near else near).sendall(data)
        except OSError:
            pass
        finally:
            near.close()
            if far is not None:
                far.close()

    def _reach(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))
