"""Failures of the outside world (disk, memory, descriptors) in a line that names the cause."""

from __future__ import annotations

import errno
import os

_WHAT_HELPS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EACCES: "check who may write there",
    errno.EPERM: "check who may write there",
    errno.EROFS: "choose a place that can be written to, e.g. with --set output.root=...",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free some memory",
    errno.EAGAIN: "raise the limit on processes (ulimit -u)",
}
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


def cause_of(error: BaseException) -> str | None:
    """What went wrong outside of this program and what helps; None where the fault is our own."""
    if isinstance(error, OSError):
        return _of_the_system(error)
    if lacks_memory(error):
        return "not enough memory: free some, or run fewer jobs at the same time"
    return None


def _of_the_system(error: OSError) -> str:
    what = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    helps = _WHAT_HELPS.get(error.errno or 0)
    return f"{where}{what}" + (f"; {helps}" if helps else "")


def lacks_memory(error: BaseException) -> bool:
    """torch tells it by a `RuntimeError`."""
    told = isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)
    return told or isinstance(error, MemoryError)
