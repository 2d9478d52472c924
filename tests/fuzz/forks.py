"""Commands in a fork of this process: with limits of their own, and without the cost of imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from securefg.cli import main as cli


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
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        cli.main()

    return work


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
