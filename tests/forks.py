"""Commands in a fork of this process: with limits of their own, and without the cost of imports."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess

import audits.run  # noqa: F401
import securefg.reports
import securefg.runs.runner
from securefg.cli import main as cli
from securefg.engines import nursery as room
from securefg.foundation import extensions
from securefg.sweep.worker import serve


def in_a_fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        gc.freeze()  # what was there before is shared as long as nobody looks for garbage in it
        room.Nursery = WarmNursery  # type: ignore[misc]
        code = 99
        try:
            work()
            code = 0
        except SystemExit as end:
            code = _exit_code(end.code)
        finally:
            os._exit(code)
    return child


def _exit_code(given: str | int | None) -> int:
    """As Python ends: what is no number is said, and is a failure."""
    if isinstance(given, str):
        print(given, file=sys.stderr)
        return 1
    return given or 0


def command(log: Path, *arguments: str) -> Callable[[], None]:
    """`securefg ...` with all that it says in a file."""

    def work() -> None:
        sys.argv = ["securefg", *arguments]
        cli.main()

    return logged(log, work)


def logged(log: Path, work: Callable[[], object]) -> Callable[[], None]:
    """Work with all that it says in a file."""

    def speaking() -> None:
        _speak_into(log, log)
        try:
            work()
        finally:
            sys.stdout.flush()

    return speaking


def script(path: Path, *arguments: str) -> CompletedProcess[str]:
    """`python path ...` in this folder."""

    def work() -> None:
        sys.argv = [str(path), *arguments]
        runpy.run_path(str(path), run_name="__main__")

    return completed(work, Path.cwd(), path.resolve().parent)


def securefg(*arguments: str, cwd: Path, path: Path | None = None) -> CompletedProcess[str]:
    """`securefg ...` in a folder, with another one to import from."""

    def work() -> None:
        sys.argv = ["securefg", *arguments]
        cli.main()

    return completed(work, cwd, path)


def completed(
    work: Callable[[], object], cwd: Path, path: Path | None = None
) -> CompletedProcess[str]:
    """Work in a fork that stands in a folder, as subprocess.run would give it."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")

        def settled() -> None:
            os.chdir(cwd)
            sys.path[:0] = [str(cwd), *([str(path)] if path else [])]
            extensions.installed.cache_clear()
            _speak_into(out, err)
            try:
                work()
            except Exception:
                traceback.print_exc()
                raise
            finally:
                sys.stdout.flush()
                sys.stderr.flush()

        code = ended(in_a_fork(settled))
        return CompletedProcess([], code, out.read_text(), err.read_text())


def _speak_into(out: Path, err: Path) -> None:
    for number, path in ((1, out), (2, err)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Worker:
    """What the pool of a sweep, and a nursery, need of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self) -> int:
        if self._code is None:
            self._code = ended(self.pid)
        return self._code


class WarmNursery(room.Nursery):
    """Forked, where a user's is a new interpreter: for tests of other things than what a host can
    reach."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner = os.getpid()
        end = theirs.fileno()

        def work() -> None:
            os.closerange(3, end)  # hosts end when their parent does: nobody else holds its ends
            os.closerange(end + 1, os.sysconf("SC_OPEN_MAX"))
            room.main(theirs)

        self._process = Worker(in_a_fork(work))  # type: ignore[assignment]
        theirs.close()


def fork_worker() -> tuple[Connection, Worker]:
    """In place of `securefg.sweep.pool.launch`."""
    ours, theirs = socket.socketpair()

    def work() -> None:
        ours.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        serve(Connection(theirs.detach()))

    child = in_a_fork(work)
    theirs.close()
    return Connection(ours.detach()), Worker(child)
