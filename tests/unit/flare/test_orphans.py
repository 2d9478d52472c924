"""A process whose parent is killed ends by itself."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

CHILD = (
    "from securefg.flare import job_process; import os, time; job_process.SECONDS = 0.05;"
    "job_process.end_with_parent(); print(os.getpid(), flush=True); time.sleep(60)"
)
PARENT = (
    "import subprocess, sys, time;"
    "subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(60)"
)


def test_a_jobs_process_does_not_outlive_the_one_that_started_it() -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip() / "environ"
        assert child.read_bytes()
        parent.kill()
        end = time.monotonic() + 50
        while time.monotonic() < end and _alive(child):
            time.sleep(0.05)
        assert not _alive(child)


def _alive(environ: Path) -> bool:
    try:
        return bool(environ.read_bytes())
    except OSError:
        return False
