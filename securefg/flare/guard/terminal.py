"""What a party's process says on the terminal; FLARE's own log goes to a file in the kit.

    console.log     everything that FLARE and the job's processes print; the older part is .1

`securefg deploy start` folds the output away and starts the process in its own place. The process
keeps one way to the terminal, over which it tells of its start, its jobs and its end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

CONSOLE: Final = "console.log"
LARGEST: Final = 20 * 1024**2
VARIABLE: Final = "SECUREFG_TERMINAL"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_terminal: int | None = None


def fold_output(kit: Path) -> Path:
    """Send all further output of this process to the kit's log. Return the log's path."""
    path = kit / CONSOLE
    if path.exists() and path.stat().st_size > LARGEST:
        os.replace(path, path.with_name(f"{CONSOLE}.1"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    log = os.open(path, flags, 0o600)
    terminal = os.dup(2)
    os.set_inheritable(terminal, True)
    os.environ[VARIABLE] = str(terminal)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return path


def take_terminal() -> None:
    """Keep the way to the terminal for this process alone; its children get none."""
    global _terminal
    number = os.environ.pop(VARIABLE, "")
    if number.isdecimal():
        with contextlib.suppress(OSError):
            os.set_inheritable(int(number), False)
            _terminal = int(number)


def tell_user(text: str) -> None:
    """Write one line to the terminal, or to standard error where nothing was folded away."""
    with contextlib.suppress(OSError):
        os.write(2 if _terminal is None else _terminal, f"{text}\n".encode())


def end_on_signals(name: str, end_children: Callable[[], None]) -> None:
    """End this process at the first Ctrl-C, SIGTERM or SIGHUP, with 128 and the signal's number.

    FLARE's threads would keep the process alive. The books and states of a party are on disk before
    anything leaves, so the process needs no time to say goodbye.
    """

    def end(number: int, frame: FrameType | None) -> None:
        end_children()
        tell_user(f"{name}: stopped by {signal.Signals(number).name}")
        os._exit(128 + number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a job in the background
            signal.signal(number, end)
