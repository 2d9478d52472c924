"""Every host in a process of its own, which gets its shard from a file and nothing else.

A socket, or memory passed over it (`pipes.py`), carries the same framed bytes as any engine, behind
a one-line JSON header for control. No object of the parent's is reachable from a host, so a method
that shares memory by accident fails here. A process that dies is a drop-out, for the rest of the
run.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from securefg.engines.breaches import raise_breach as _raise_breach
from securefg.engines.hosting import HostSpec
from securefg.engines.nursery import Child, start_nursery
from securefg.engines.pipes import receive, send
from securefg.federation.engine import Answer, Dropped, Engine, HostId
from securefg.federation.evaluation import LocalScore
from securefg.foundation.errors import RunFailed
from securefg.privacy.ledger import Release
from securefg.protocol.codec import Body
from securefg.settings.config import RunConfig
from securefg.settings.methods import SHIPPED


class Processes(Engine):
    """A parent's side: one pipe and one process per host."""

    def __init__(
        self, specs: Sequence[HostSpec], shard_files: Sequence[Path], timeout: float
    ) -> None:
        self._timeout = timeout
        self.hosts = {spec.name: spec.clients for spec in specs}
        self._pipes: dict[HostId, Connection] = {}
        self._workers: dict[HostId, Child] = {}
        try:
            for spec, path in zip(specs, shard_files, strict=True):
                self._pipes[spec.name], self._workers[spec.name] = _launch_host(spec, path)
            if len(self._await_all()) < len(specs):
                raise RunFailed("a host's process did not start")
        except BaseException:
            self.close()
            raise

    def deliver(self, requests: Mapping[HostId, Body]) -> Mapping[HostId, Answer | Dropped]:
        """Carry each framed request to its host's process, and return the answers."""
        for name, framed in requests.items():
            self._send_frame(name, {"do": "answer"}, framed)
        return {name: self._read_answer(name) for name in requests}

    def measure(self, release: Body, *, at_end: bool = False) -> list[LocalScore]:
        """Return the scores of a released model on every client's own nodes."""
        headers = self._ask_all({"do": "measure", "at_end": at_end}, release)
        return [LocalScore(**score) for header in headers for score in header["scores"]]

    def save(self, folder: Path) -> None:
        """Let every host write its private state under `folder`."""
        self._ask_all({"do": "save", "folder": str(folder)})

    def load(self, folder: Path) -> None:
        """Let every host take up its state from `folder`."""
        self._ask_all({"do": "load", "folder": str(folder)})

    def close(self) -> None:
        """End all hosts' processes."""
        for name in list(self._pipes):
            self._send_frame(name, {"do": "close"})
        for worker in self._workers.values():
            worker.end(grace=5)
        for pipe in self._pipes.values():
            pipe.close()
        self._pipes = {}

    @property
    def pids(self) -> dict[HostId, int]:
        """Return the process of every host, by name."""
        return {name: worker.pid for name, worker in self._workers.items()}

    def _send_frame(self, name: HostId, header: dict[str, Any], blob: Body = b"") -> None:
        if name not in self._pipes:
            return
        try:
            send(self._pipes[name], header, blob)
        except (BrokenPipeError, ConnectionError):
            self._bury_worker(name)

    def _read_answer(self, name: HostId) -> Answer | Dropped:
        received = self._receive_reply(name)
        if received is None:
            return Dropped(name, self.hosts[name], "process died or fell silent")
        header, blob = received
        if "dropped" in header:
            return Dropped(name, self.hosts[name], header["dropped"])
        return Answer(blob, [Release.from_json(release) for release in header["releases"]])

    def _receive_reply(self, name: HostId) -> tuple[dict[str, Any], Body] | None:
        if name not in self._pipes:
            return None
        try:
            if self._pipes[name].poll(self._timeout):
                header, blob = receive(self._pipes[name])
                _raise_breach(header)
                return header, blob
        except (EOFError, ConnectionError):
            pass
        self._bury_worker(name)
        return None

    def _bury_worker(self, name: HostId) -> None:
        self._pipes.pop(name).close()
        self._workers[name].end()

    def _ask_all(self, header: dict[str, Any], blob: Body = b"") -> list[dict[str, Any]]:
        for name in list(self._pipes):
            self._send_frame(name, header, blob)
        return self._await_all()

    def _await_all(self) -> list[dict[str, Any]]:
        """Return one header from every host that is alive."""
        received = [self._receive_reply(name) for name in list(self._pipes)]
        return [found[0] for found in received if found is not None]


def shared_imports(config: RunConfig) -> list[str]:
    """Return what every host of this run needs: our own modules and libraries, nothing of a
    user's."""
    found = [SHIPPED[config.method.name]] if config.method.name in SHIPPED else []
    return [*found, *config.method.libraries(config.training.noise_in_training is not None)]


def _launch_host(spec: HostSpec, shard_file: Path) -> tuple[Connection, Child]:
    """Return a host on one end of a socket. The caller's main module plays no part in it."""
    ours, theirs = socket.socketpair()
    worker = start_nursery().bear_child(theirs, shared_imports(spec.config))
    theirs.close()
    pipe = Connection(ours.detach())
    # Our own child reads this before any message; nothing from outside is ever unpickled.
    pipe.send((spec, shard_file))
    return pipe, worker
