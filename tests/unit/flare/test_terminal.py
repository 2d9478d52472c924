"""A party's log is folded into a file, and the first Ctrl-C ends the party with what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDS = """
import os, sys
from pathlib import Path
from securefg.flare.guard.terminal import fold_output
fold_output(Path(sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
"""
PARTY = """
import subprocess, sys, threading, time
from securefg.flare.guard import terminal
CHILD = "import os, time; print(os.environ.get('SECUREFG_TERMINAL')); time.sleep(60)"
from securefg.flare.guard.process import kill_children
terminal.take_terminal()
child = subprocess.Popen(
    [sys.executable, "-uc", CHILD],
    start_new_session=True,
)
print("noise of FLARE", flush=True)
threading.Thread(target=time.sleep, args=(60,)).start()  # FLARE's threads are no daemons
terminal.end_on_signals("bank-a", kill_children)
terminal.tell_user(f"ready {child.pid}")
while True:
    time.sleep(1)
"""


def start_party(kit: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FOLDS, str(kit), PARTY],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_party_first_signal_ends_it_and_its_jobs(tmp_path: Path, number: signal.Signals) -> None:
    party = start_party(tmp_path)
    assert party.stderr is not None
    child = int(party.stderr.readline().split()[1])
    while "None" not in (tmp_path / "console.log").read_text():
        time.sleep(0.05)  # the child has not printed yet
    party.send_signal(number)
    assert party.wait(45) == 128 + number  # its threads would keep it for 60 seconds
    with party.stderr as told:
        assert told.read() == f"bank-a: stopped by {number.name}\n"
    with pytest.raises(ProcessLookupError):
        _await_end(child)
    log = tmp_path / "console.log"
    assert log.read_text().splitlines() == ["noise of FLARE", "None"]  # no way to the terminal
    assert log.stat().st_mode & 0o077 == 0


def _await_end(pid: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        os.kill(pid, 0)
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            raise ProcessLookupError
        time.sleep(0.05)


def test_party_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    code = (
        "import signal; from securefg.flare.guard.terminal import end_on_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); end_on_signals('x', lambda: None)\n"
        "assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN\n"
        "assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_log_that_grew_large_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_bytes(b"x" * (20 * 1024**2 + 1))
    command = [sys.executable, "-c", FOLDS, str(tmp_path), "print('new')"]
    assert subprocess.run(command, check=False).returncode == 0
    assert (tmp_path / "console.log").read_text() == "new\n"
    assert (tmp_path / "console.log.1").stat().st_size > 20 * 1024**2


def test_log_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    (tmp_path / "console.log").symlink_to(target)
    command = [sys.executable, "-c", FOLDS, str(tmp_path), "print('new')"]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    assert target.read_text() == "old"
