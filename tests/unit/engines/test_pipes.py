"""Large frames lie in memory that two processes share, and that is gone with them."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from securefg.engines import pipes
from securefg.engines.processes import Processes
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.assembly import prepare, start_engine
from securefg.runs.folder import RunFolder
from tests.small import config

SIZES = [0, 1, pipes.LARGE - 1, pipes.LARGE, 3 * pipes.LARGE + 7]


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    one, other = (Connection(end.detach()) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def shared_by(pid: int) -> list[str]:
    """The frames that a process holds open or has mapped."""
    handles = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    mapped = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in (*handles, *mapped) if "memfd:securefg-frame" in line]


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_of_any_size_arrives_as_it_was(
    size: int, ends: tuple[Connection, Connection]
) -> None:
    blob = os.urandom(size)
    sender = threading.Thread(target=pipes.send, args=(ends[0], {"do": "x"}, blob))
    sender.start()
    header, found = pipes.receive(ends[1])
    sender.join()
    assert (header, bytes(found)) == ({"do": "x"}, blob)
    assert isinstance(found, memoryview) == (size >= pipes.LARGE)


def test_what_is_shared_cannot_be_changed_and_goes_with_its_last_view(
    ends: tuple[Connection, Connection],
) -> None:
    pipes.send(ends[0], {}, bytes(pipes.LARGE))
    _, received_view = pipes.receive(ends[1])
    assert isinstance(received_view, memoryview)
    assert received_view.readonly
    assert shared_by(os.getpid())
    part = received_view[5:]
    del received_view
    assert shared_by(os.getpid())
    del part
    assert shared_by(os.getpid()) == []


def test_memory_on_its_way_is_sealed() -> None:
    memory = pipes._write_memory(bytes(pipes.LARGE))
    for change in (lambda: os.write(memory, b"x"), lambda: os.ftruncate(memory, 1)):
        with pytest.raises(PermissionError):
            change()
    os.close(memory)


def test_a_sender_that_ends_before_its_blob_is_a_broken_line(
    ends: tuple[Connection, Connection],
) -> None:
    ends[0].send_bytes(b'{"shared": true, "header": {}}')
    ends[0].close()
    with pytest.raises(EOFError):
        pipes.receive(ends[1])


def test_a_host_killed_while_it_holds_a_frame_leaves_nothing(
    tmp_path: Path,
) -> None:
    """The frame is still on its way: nobody has taken it when the host is killed."""
    parsed = config(tmp_path, "engine.name=processes", "partition.shares=[0.5]")
    experiment = prepare(parsed)
    folder = RunFolder.create(experiment.config, lambda path: None, False)
    engine = start_engine(experiment, folder, 1, None)
    assert isinstance(engine, Processes)
    ((name, pid),) = engine.pids.items()
    os.kill(pid, signal.SIGSTOP)
    engine._send_frame(name, {"do": "answer"}, bytes(pipes.LARGE))
    os.kill(pid, signal.SIGKILL)
    assert engine._receive_reply(name) is None
    engine.close()
    assert shared_by(os.getpid()) == []
    nursery = engine._workers[name].nursery._process.pid
    assert shared_by(nursery) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_large_frames_both_ways_are_the_bytes_of_one_process(tmp_path: Path) -> None:
    """`echo` itself asserts that every number came back."""
    size = pipes.LARGE // 4
    bodies = {}
    for engine in ("inprocess", "processes"):
        echo = f"method={{name: tests.e2e.echo, size: {size}}}"
        parsed = config(tmp_path / engine, echo, f"engine.name={engine}", "training.rounds=2")
        transcript = runner.start(parsed).folder.transcript
        bodies[engine] = [
            (r.kind, r.payload, r.body if r.kind == "echo.Call" else None)
            for r in read_transcript(transcript)
        ]
    assert bodies["inprocess"] == bodies["processes"]
    assert max(r[1] for r in bodies["processes"]) >= pipes.LARGE
