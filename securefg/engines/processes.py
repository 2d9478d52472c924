"""Every host in a spawned process of its own, which gets its shard from a file and nothing else.

The pipe carries the same framed bytes as any engine, behind a one-line JSON header for control; no
object of the parent's is reachable from a host, so a method that shares memory by accident fails
here. A process that dies is a drop-out, for the rest of the run.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from securefg import errors
from securefg.data.shard_store import load_shards
from securefg.engines.base import Answer, Dropped, Engine, HostId
from securefg.engines.hosting import HostSpec, build_endpoint
from securefg.errors import PrivacyError, ProtocolError, RunFailed, SecurefgError
from securefg.evaluation import LocalScore
from securefg.privacy.ledger import Release


class Processes(Engine):
    def __init__(self, specs: Sequence[HostSpec], shard_files: Sequence[Path], timeout: float):
        self._timeout = timeout
        self.hosts = {spec.name: spec.clients for spec in specs}
        context = multiprocessing.get_context("spawn")
        self._pipes: dict[HostId, Connection] = {}
        self._workers = {}
        for spec, path in zip(specs, shard_files, strict=True):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_serve, args=(spec, path, theirs), daemon=True)
            worker.start()
            theirs.close()
            self._pipes[spec.name], self._workers[spec.name] = ours, worker
        self._await_all("ready")

    def deliver(self, requests: Mapping[HostId, bytes]) -> Mapping[HostId, Answer | Dropped]:
        for name, framed in requests.items():
            self._send(name, {"do": "answer"}, framed)
        return {name: self._answer(name) for name in requests}

    def measure(self, release: bytes) -> list[LocalScore]:
        headers = self._ask_all({"do": "measure"}, release)
        return [LocalScore(**score) for header in headers for score in header["scores"]]

    def save(self, folder: Path) -> None:
        self._ask_all({"do": "save", "folder": str(folder)})

    def load(self, folder: Path) -> None:
        self._ask_all({"do": "load", "folder": str(folder)})

    def close(self) -> None:
        for name in list(self._pipes):
            self._send(name, {"do": "close"})
        for worker in self._workers.values():
            worker.join(timeout=5)
            if worker.is_alive():
                worker.kill()
                worker.join()
        self._pipes = {}

    @property
    def pids(self) -> dict[HostId, int | None]:
        return {name: worker.pid for name, worker in self._workers.items()}

    def _send(self, name: HostId, header: dict[str, Any], blob: bytes = b"") -> None:
        if name not in self._pipes:
            return
        try:
            _send(self._pipes[name], header, blob)
        except (BrokenPipeError, ConnectionError):
            self._bury(name)

    def _answer(self, name: HostId) -> Answer | Dropped:
        received = self._receive(name)
        if received is None:
            return Dropped(name, self.hosts[name], "process died or fell silent")
        header, blob = received
        if "dropped" in header:
            return Dropped(name, self.hosts[name], header["dropped"])
        return Answer(blob, [Release.from_json(release) for release in header["releases"]])

    def _receive(self, name: HostId) -> tuple[dict[str, Any], bytes] | None:
        if name not in self._pipes:
            return None
        try:
            if self._pipes[name].poll(self._timeout):
                header, blob = _receive(self._pipes[name])
                _raise_breach(header)
                return header, blob
        except (EOFError, ConnectionError):
            pass
        self._bury(name)
        return None

    def _bury(self, name: HostId) -> None:
        self._pipes.pop(name).close()
        self._workers[name].kill()

    def _ask_all(self, header: dict[str, Any], blob: bytes = b"") -> list[dict[str, Any]]:
        for name in list(self._pipes):
            self._send(name, header, blob)
        return self._await_all("done")

    def _await_all(self, word: str) -> list[dict[str, Any]]:
        headers = []
        for name in list(self._pipes):
            received = self._receive(name)
            if received is None and word == "ready":
                raise RunFailed(f"{name}: its process did not start")
            if received is not None:
                headers.append(received[0])
        return headers


def _raise_breach(header: dict[str, Any]) -> None:
    """A breach of the rules at a host ends the run here as it would in one process."""
    if "breach" in header:
        kind = getattr(errors, header["breach"], ProtocolError)
        raise kind(header["reason"])


def _send(pipe: Connection, header: dict[str, Any], blob: bytes = b"") -> None:
    pipe.send_bytes(json.dumps(header, allow_nan=False).encode())
    pipe.send_bytes(blob)


def _receive(pipe: Connection) -> tuple[dict[str, Any], bytes]:
    return json.loads(pipe.recv_bytes()), pipe.recv_bytes()


def _serve(spec: HostSpec, shard_file: Path, pipe: Connection) -> None:
    """A host process's main: build the host, then answer until told to close."""
    torch.set_num_threads(spec.config.engine.threads)
    endpoint = build_endpoint(spec, load_shards(shard_file))
    _send(pipe, {"ready": True})
    while True:
        try:
            header, blob = _receive(pipe)
        except (EOFError, KeyboardInterrupt):
            return
        if header["do"] == "close":
            return
        try:
            _send(pipe, *_perform(endpoint, header, blob))
        except (PrivacyError, ProtocolError) as error:
            _send(pipe, {"breach": type(error).__name__, "reason": str(error)})
        except Exception as error:
            _send(pipe, {"dropped": type(error).__name__})


def _perform(endpoint: Any, header: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
    match header["do"]:
        case "answer":
            answer = endpoint.answer(blob)
            return {"releases": [r.to_json() for r in answer.releases]}, answer.framed
        case "measure":
            return {"scores": [asdict(score) for score in endpoint.measure(blob)]}, b""
        case "save":
            endpoint.save(Path(header["folder"]))
        case "load":
            endpoint.load(Path(header["folder"]))
        case unknown:
            raise SecurefgError(f"no control {unknown!r}")
    return {"done": True}, b""
