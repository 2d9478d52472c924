"""history.jsonl: how a run ended, and every audit of it, beside the folder that an audit writes to.

It is a log (`securefg.foundation.log`). Each entry has the digests of what it wrote. An audit notes
those of `audit/findings.json` before it writes that file: what an editor wrote there is not in the
history, and an audit whose findings were taken away still is, with all that it found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from audits.findings.record import Finding
from securefg.foundation.errors import RunFolderError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.log import FORMAT, Log, read_log
from securefg.foundation.settings import Settings, explain_fault
from securefg.foundation.versions import list_versions

FILE, OLDER_FILE = "history.jsonl", "history.json"
LOG = "history"
FINDINGS, SCORES = "audit/findings.json", "audit/scores.npz"
OF_THE_RUN = (
    "summary.json",
    "metrics.jsonl",
    "ledger.jsonl",
    "attempts.jsonl",
    "partition.json",
    "model.safetensors",
)


class Entry(Settings):
    """An entry of the history: the end of a run, an audit, or that the earlier history was missing.

    record  the last link of the transcript that it is about, or None for an exchange
    files   SHA-256 of what it wrote, or of what an audit at work writes next
    before  of the findings that are replaced next
    lost    the findings of the audit before it were not there, or not as that one left them
    found   the findings that no milder audit may take back, as they stood
    link    its link in the log, which is not part of the entry
    """

    what: Literal["run", "audit", "unknown"]
    day: str
    version: str
    record: str | None = None
    asked: str = ""
    terms: str = ""
    ended: bool = True
    lost: bool = False
    files: dict[str, str] = Field(default_factory=dict)
    before: str = ""
    found: tuple[Finding, ...] = ()
    link: str = Field(default="", exclude=True)

    @property
    def words(self) -> str:
        """Return the name of the audit, such as `the audit of 2026-01-31 (everything, --seed
        7)`."""
        terms = self.terms or "default terms"
        return f"the audit of {self.day} ({self.asked}, {terms})"


History = tuple[Entry, ...]


def new_entry(what: Literal["run", "audit", "unknown"], **more: object) -> Entry:
    """Return an entry for the history with the time and the version."""
    today = datetime.now(UTC).date().isoformat()
    common = {"what": what, "day": today, "version": list_versions()["securefg"]}
    return Entry.model_validate({**common, **more})


def read_history(folder: Path) -> History:
    """Return the history of a run. Raise RunFolderError if it is damaged or was edited.

    A finished run has a history. If it is missing, the past is not known, and the history begins
    with an entry that says so.
    """
    path = folder / FILE
    if (folder / OLDER_FILE).exists():
        raise RunFolderError(
            f"{folder / OLDER_FILE}: format: found 1; expected {FORMAT} ({FILE}): an older version "
            "made this run; read it with that version, or run it again"
        )
    if not path.is_file():
        return (new_entry("unknown"),) if (folder / "summary.json").is_file() else ()
    try:
        if not read_bounded(path).endswith(b"\n"):  # it is written whole, so no crash tears it
            raise ValueError("its end was cut off")
        return tuple(Entry.model_validate({**e, "link": link}) for e, link in read_log(path, LOG))
    except (OSError, ValueError) as error:
        why = explain_fault(error)
        raise RunFolderError(f"{path}: no history can be read here: {why}") from error


def write_history(folder: Path, entries: Sequence[Entry]) -> None:
    """Write all entries, each after the one before. An audit does so after every finding, since
    all that it has found so far is one entry."""
    Log(folder / FILE, LOG).replace([entry.model_dump(mode="json") for entry in entries])


def file_digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of every file that exists, by name."""
    return {name: file_digest(folder / name) for name in names if (folder / name).is_file()}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def note_the_end(folder: Path, record: str, summary: bytes) -> None:
    """Write the end of a run into the history, before the summary is written that makes the run
    finished."""
    files = file_digests(folder, OF_THE_RUN) | {"summary.json": hashlib.sha256(summary).hexdigest()}
    write_history(folder, (*read_history(folder), new_entry("run", record=record, files=files)))


def require_as_it_ended(folder: Path) -> None:
    """Raise where files of a finished run are not what its end left."""
    changed = changed_since_the_end(folder, read_history(folder))
    if changed:
        raise RunFolderError(f"{folder}: changed since the run ended: {', '.join(changed)}")


def changed_since_the_end(folder: Path, history: History) -> list[str]:
    """Return the files of a finished run that are not what its last end left."""
    ends = [entry for entry in history if entry.what == "run"]
    if not ends:
        return []
    left, now = ends[-1].files, file_digests(folder, OF_THE_RUN)
    return sorted(name for name in {*left, *now} if left.get(name) != now.get(name))
