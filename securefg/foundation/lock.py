"""One owner at a time: a folder's lock is the kernel's, and ends with the process that holds it.

`filelock` does not serve here: it does not notice that a folder was replaced by another one between
opening and locking, and it accepts a lock file with a second name (a hard link).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from securefg.foundation.errors import RunFolderError

LOCK: Final = ".lock"
PAUSE_SECONDS: Final = 0.05
_held: dict[tuple[int, int], int] = {}
"""The thread that holds a lock of this process, by the lock file's device and inode."""


@contextmanager
def owned(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a folder for this thread. Raise RunFolderError if somebody else does.

    patience  for how many seconds to wait until somebody else has ended

    The same thread may ask again. The file stays when the lock ends: to remove it would let two
    processes lock two files of one name. A lock moves with its folder when that is renamed.
    """
    handle = _open_lock(folder)
    try:
        found = os.fstat(handle)
        key = (found.st_dev, found.st_ino)
        if _held.get(key) == threading.get_ident():
            yield
            return
        _take_lock(handle, folder, patience)
        require_plain(folder, written=True)
        _held[key] = threading.get_ident()
        try:
            yield
        finally:
            del _held[key]
    finally:
        os.close(handle)


def _open_lock(folder: Path) -> int:
    """Return the lock file that the folder has now. A `--fresh` start may put another in its
    place."""
    path = folder / LOCK
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o644)
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(
            f"{folder}: found no such folder; expected a run's, as `securefg runs` lists them"
        ) from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _link_error(path) from None
    try:
        _check_lock(path, os.fstat(handle), written=True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def require_plain(folder: Path, *, written: bool = False) -> None:
    """Refuse what is neither a file nor a folder: a pipe may never end, a link may lead anywhere.

    written  whether the folder is written to; then a file may have no second name elsewhere either
    """
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            with suppress(FileNotFoundError):  # a run at work replaces files
                _check_lock(path, path.lstat(), written)
        if Path(parent) == folder / "private" and "flare" in folders:
            folders.remove("flare")  # FLARE links files within its own workspaces


def _check_lock(path: Path, file_status: os.stat_result, written: bool) -> None:
    if stat.S_ISLNK(file_status.st_mode):
        raise _link_error(path)
    if stat.S_ISREG(file_status.st_mode):
        if written and file_status.st_nlink > 1:
            raise RunFolderError(
                f"{path} has a second name (a hard link), through which another file would be "
                "changed: put a copy in its place"
            )
    elif not stat.S_ISDIR(file_status.st_mode):
        raise RunFolderError(f"{path} is a pipe, socket or device; a run has files and folders")


def _link_error(path: Path) -> RunFolderError:
    return RunFolderError(f"{path} is a link; a run's folder has none: remove it")


def _take_lock(handle: int, folder: Path, patience: float) -> None:
    end = time.monotonic() + patience
    while not (is_ours := _try_lock(handle)) and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)
    if not is_ours:
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
        who = f"process {holder}" if holder.isdecimal() else "another process"
        raise RunFolderError(f"{folder} is in use by {who}; wait until it has ended")
    if not _is_current(handle, folder):
        raise RunFolderError(f"{folder} was replaced by another process in this moment; try again")
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(handle: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder / LOCK))
    except FileNotFoundError:
        return False
