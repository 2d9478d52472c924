"""The processes of a kit on this machine: found by their command line, and ended."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from securefg.flare.guard.process import MODULE

GRACE_SECONDS: Final = 5.0


def find_processes(kit: Path) -> list[int]:
    """Return the numbers of this user's processes that run this kit, a job's own among them."""
    psutil: Any = importlib.import_module("psutil")
    kit_path, own_uid = str(kit.resolve()), os.geteuid()
    process_ids = []
    for process in psutil.process_iter(["cmdline", "uids"]):
        words, uids = process.info["cmdline"] or [], process.info["uids"]
        if MODULE in words and kit_path in words and uids is not None and uids.effective == own_uid:
            process_ids.append(int(process.pid))
    return process_ids


def end_processes(kit: Path) -> int:
    """End a kit's processes, those that do not end by themselves by force. Return their number."""
    process_ids = find_processes(kit)
    _send_signal(process_ids, signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS
    while (left := find_processes(kit)) and time.monotonic() < end:
        time.sleep(0.1)
    _send_signal(left, signal.SIGKILL)
    return len(process_ids)


def _send_signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
