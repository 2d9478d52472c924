"""Commands in a fork of this process: with limits of their own, and without the cost of imports."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import torch_geometric.nn  # noqa: F401  (what forks would import one by one)

import audits.run  # noqa: F401
import securefg.reports
import securefg.run.runner
from securefg.cli import main as cli
from securefg.foundation import extensions


def in_a_fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            os._exit(code)
    return child


def command(log: Path, *arguments: str) -> Callable[[], None]:
    """`securefg ...` with all that it says in a file."""

    def work() -> None:
        sys.argv = ["securefg", *arguments]
        _speak_into(log, log)
        cli.main()

    return work


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
