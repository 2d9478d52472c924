"""A process that has imported what a host needs, holds nobody's data, and forks hosts from there.

Importing PyTorch costs seconds. With a nursery a run pays them once, not once per host. It is a new
interpreter, so that no object of its parent's is reachable from a host. A host's own process builds
the host and answers until it is told to close (`serve`).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import torch

from securefg.data.shard import load_shards
from securefg.engines.breaches import breach_header, note_failure
from securefg.engines.endpoint import Endpoint
from securefg.engines.hosting import build_endpoint
from securefg.engines.pipes import receive, send
from securefg.foundation.errors import BREACHES, ProtocolError, RunFailed, SecurefgError
from securefg.protocol.codec import Body

MOST_BYTES = 2**20


@dataclass(frozen=True)
class Child:
    """A host's process. It stays a child of the nursery, which alone may wait for it."""

    pid: int
    nursery: Nursery

    def end(self, grace: float = 0.0) -> None:
        """Wait so many seconds for it, then kill it."""
        self.nursery.end(self.pid, grace)


class Nursery:
    """A parent's side of the nursery."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "securefg.engines.nursery", str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        self._owner = os.getpid()
        theirs.close()

    @property
    def usable(self) -> bool:
        """Return whether it lives and is this process's own, not that of one we were forked
        from."""
        return self._owner == os.getpid() and self._process.poll() is None

    def bear_child(self, end: socket.socket, warm: Sequence[str] = ()) -> Child:
        """Return a host's process on this end of a socket, with our present paths and environment.

        warm  modules of ours or of libraries, which the nursery imports for all of its hosts
        """
        place: dict[str, Any] = {"path": sys.path, "environment": dict(os.environ)}
        place |= {"folder": os.getcwd(), "warm": list(warm)}
        try:
            socket.send_fds(self._control, [json.dumps(place).encode()], [end.fileno()])
            return Child(json.loads(self._control.recv(MOST_BYTES))["pid"], self)
        except (OSError, ValueError) as error:
            raise RunFailed("a host's process did not start") from error

    def end(self, pid: int, grace: float) -> None:
        """Wait so many seconds for a host's process, then kill it."""
        try:
            self._control.send(json.dumps({"end": pid, "grace": grace}).encode())
            if self._control.recv(MOST_BYTES):
                return
        except OSError:
            pass
        with contextlib.suppress(ProcessLookupError):  # the nursery is gone
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End the nursery. It ends when nobody holds the other end of its socket, and its hosts end
        likewise."""
        if self._owner == os.getpid():
            self._control.close()
            self._process.kill()
            self._process.wait()


_nurseries: list[Nursery] = []


def start_nursery() -> Nursery:
    """Return this process's own nursery, started when it is first needed."""
    if not _nurseries or not _nurseries[-1].usable:
        _close_nurseries()
        _nurseries.append(Nursery())
    return _nurseries[-1]


@atexit.register
def _close_nurseries() -> None:
    while _nurseries:
        _nurseries.pop().close()


def main(control: socket.socket) -> None:
    """Fork and end hosts as the parent asks, until it is gone."""
    # Ctrl-C reaches the whole process group; the parent alone decides when hosts end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, ends, *_ = socket.recv_fds(control, MOST_BYTES, 1)
        if not request:
            return
        wanted = json.loads(request)
        if "end" in wanted:
            _end_child(wanted["end"], wanted["grace"])
            control.send(b"{}")
            continue
        for module in wanted["warm"]:
            importlib.import_module(module)
        gc.freeze()  # memory is shared with hosts as long as none looks for garbage in it
        pid = os.fork()
        if pid == 0:
            control.close()
            _settle_place(wanted)
            with contextlib.suppress(EOFError, ConnectionError):  # the parent is gone
                serve(Connection(ends[0]))
            _leave_at_once()
        os.close(ends[0])
        control.send(json.dumps({"pid": pid}).encode())


def _settle_place(place: dict[str, Any]) -> None:
    sys.path[:] = place["path"]
    os.environ.clear()
    os.environ.update(place["environment"])
    os.chdir(place["folder"])


def _leave_at_once() -> NoReturn:
    """End at once: to take all modules apart would copy the memory that they are in."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_child(pid: int, grace: float) -> None:
    until = time.monotonic() + grace
    while time.monotonic() < until and not _is_over(pid):
        time.sleep(0.002)
    if not _is_over(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _is_over(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # waited for before
        return True


def serve(pipe: Connection) -> None:
    """Build the host that the parent describes, then answer the parent's requests."""
    spec, shard_file = pipe.recv()
    torch.set_num_threads(spec.config.engine.threads)
    try:
        endpoint = build_endpoint(spec, load_shards(shard_file))
    except SecurefgError as error:
        send(pipe, breach_header(error))
        return
    send(pipe, {"ready": True})
    while True:
        header, blob = receive(pipe)
        if header["do"] == "close":
            return
        try:
            send(pipe, *_perform_request(endpoint, header, blob))
        except BREACHES as error:
            send(pipe, breach_header(error))
        except Exception as error:
            send(pipe, {"dropped": note_failure(spec.name, error)})


def _perform_request(
    endpoint: Endpoint, header: dict[str, Any], blob: Body
) -> tuple[dict[str, Any], Body]:
    match header["do"]:
        case "answer":
            answer = endpoint.answer(blob)
            return {"releases": [r.to_json() for r in answer.releases]}, answer.framed
        case "measure":
            scores = endpoint.measure(blob, header["at_end"])
            return {"scores": [asdict(score) for score in scores]}, b""
        case "save":
            endpoint.save(Path(header["folder"]))
        case "load":
            endpoint.load(Path(header["folder"]))
        case unknown:
            raise ProtocolError(f"no control {unknown!r}")
    return {"done": True}, b""


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
