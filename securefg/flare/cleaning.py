"""Files that `securefg deploy clean` removes: the traces of jobs and logs in kits, and never a key.

Kept without `--all`: keys and certificates (`startup`), settings and the plan (`local`), a site's
home with its data, floor and books (`securefg`), the server's runs (`securefg_runs`),
`visits.jsonl`, `audit.log` and every file that is not listed here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from securefg.flare.app_files import JOB_ID
from securefg.flare.processes import find_processes
from securefg.foundation.errors import InputError
from securefg.site.plan import PLAN_FILE

LOGS: Final = ("console.log*", "log.txt*", "error_log.txt*", "pool_stats*", "*.fl")
STORES: Final = {
    "jobs": "FLARE's copies of jobs and results: `deploy fetch` cannot bring them any more",
    "snapshots": "FLARE's own snapshots",
    "transfer": "downloads in transit",
}
OF_THE_ADMIN: Final = {"job": "the last job as it was submitted"}


@dataclass(frozen=True)
class Leftover:
    """A file or folder that can go, and what it is."""

    path: Path
    what: str

    @property
    def size(self) -> int:
        """The number of bytes in it."""
        if self.path.is_symlink() or self.path.is_file():
            return self.path.lstat().st_size
        return sum(x.lstat().st_size for x in self.path.rglob("*") if x.is_file())


def kits_in(path: Path) -> list[Path]:
    """Return the kits that a folder holds, or the folder itself where it is one."""
    if (path / "startup").is_dir():
        return [path]
    if (path / PLAN_FILE).is_file():
        return sorted(one.parent for one in path.glob("*/startup"))
    raise InputError(f"{path}: found no kit; expected a party's folder, or that with all kits")


def find_leftovers(path: Path, everything: bool) -> list[Leftover]:
    """Return what would be removed. Raise where a party of it runs on this machine."""
    kits = kits_in(path)
    running = [kit.name for kit in kits if find_processes(kit)]
    if running:
        raise InputError(
            f"{path}: found running: {', '.join(running)}; expected none: "
            "`securefg deploy stop KIT`"
        )
    if everything:
        return [Leftover(path, "the whole folder, with its KEYS and BOOKS, for good")]
    leftovers = [leftover for kit in kits for leftover in _in_kit(kit)]
    if path not in kits:
        named = ((path / name, what) for name, what in OF_THE_ADMIN.items())
        leftovers += [Leftover(one, what) for one, what in named if one.exists()]
    return leftovers


def _in_kit(kit: Path) -> Iterator[Leftover]:
    for kit_entry in sorted(kit.iterdir()):
        if kit_entry.name in STORES:
            yield Leftover(kit_entry, STORES[kit_entry.name])
        elif JOB_ID.fullmatch(kit_entry.name):
            yield Leftover(kit_entry, "a job's own folder")
        elif any(kit_entry.match(pattern) for pattern in LOGS):
            yield Leftover(kit_entry, "a log")


def remove_leftover(leftover: Leftover) -> None:
    """Remove a file or a folder; a link goes, and what it points to stays."""
    path = leftover.path
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)
