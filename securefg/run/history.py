"""history.json: how a run ended, and every audit of it, beside the folder that an audit writes to.

Entries are chained by hashes, and each has the digests of what it wrote. An audit notes those of
`audit/findings.json` before it writes that file: what an editor wrote there is not in the history,
and an audit whose findings were taken away still is, with all that it found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_atomically
from securefg.foundation.json_text import read_json
from securefg.foundation.settings import Settings
from securefg.foundation.versions import versions
from securefg.run.findings import Finding

FILE = "history.json"
SCHEMA = 2
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
    """The end of a run, an audit, or that the history before was not there.

    record  the last link of the transcript that it is about; None for an exchange
    files   SHA-256 of what it wrote; of an audit that is at work, of what it writes next
    before  of the findings that are replaced next
    lost    the findings of the audit before it were not there, or not as that one left them
    found   the findings that no milder audit may take back, as they stood
    link    hash of all this, and of the link before
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
    link: str = ""

    @property
    def words(self) -> str:
        """`the audit of 2026-01-31 (everything, --seed 7)`"""
        terms = self.terms or "default terms"
        return f"the audit of {self.day} ({self.asked}, {terms})"


History = tuple[Entry, ...]


def new_entry(what: Literal["run", "audit", "unknown"], **more: object) -> Entry:
    today = datetime.now(UTC).date().isoformat()
    common = {"what": what, "day": today, "version": versions()["securefg"]}
    return Entry.model_validate({**common, **more})


def read_history(folder: Path) -> History:
    """Refuses one that is damaged or was edited. A finished run has one: where it is not there,
    what was before is not known."""
    path = folder / FILE
    if not path.is_file():
        return (new_entry("unknown"),) if (folder / "summary.json").is_file() else ()
    try:
        tree = read_json(path)
        if tree["schema"] != SCHEMA:
            raise RunFolderError(
                f"{path}: found a history of format {tree['schema']}; expected {SCHEMA}: make the "
                "run anew with `securefg run --fresh`"
            )
        entries = tuple(Entry.model_validate(entry) for entry in tree["entries"])
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise RunFolderError(f"{path}: no history can be read here: {where}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path}: no history can be read here: {error}") from error
    for number, (entry, linked) in enumerate(zip(entries, chained(entries), strict=True), 1):
        if entry != linked:
            raise RunFolderError(f"{path}: entry {number} is not the one that was written")
    return entries


def write_history(folder: Path, entries: Sequence[Entry]) -> History:
    """With every entry linked to the one before; those that have their links keep them. An audit
    writes it after every finding: an entry is a line, which is ten times as fast as many."""
    linked = chained(entries)
    lines = (json.dumps(entry.model_dump(mode="json"), allow_nan=False) for entry in linked)
    listed = ",\n".join(lines)
    write_atomically(
        folder / FILE, f'{{"schema": {json.dumps(SCHEMA)}, "entries": [\n{listed}\n]}}\n'
    )
    return linked


def chained(entries: Sequence[Entry]) -> History:
    linked: list[Entry] = []
    for entry in entries:
        before = linked[-1].link if linked else ""
        tree = entry.model_dump(mode="json", exclude={"link"})
        text = json.dumps([before, tree], sort_keys=True, allow_nan=False)
        own = hashlib.sha256(text.encode()).hexdigest()
        linked.append(entry.model_copy(update={"link": own}))
    return tuple(linked)


def digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    return {name: digest(folder / name) for name in names if (folder / name).is_file()}


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def note_the_end(folder: Path, record: str, summary: bytes) -> None:
    """Before the summary is written, which makes the run a finished one."""
    files = digests(folder, OF_THE_RUN) | {"summary.json": hashlib.sha256(summary).hexdigest()}
    write_history(folder, (*read_history(folder), new_entry("run", record=record, files=files)))


def require_as_it_ended(folder: Path) -> None:
    """Raise where files of a finished run are not what its end left."""
    changed = changed_since_the_end(folder, read_history(folder))
    if changed:
        raise RunFolderError(f"{folder}: changed since the run ended: {', '.join(changed)}")


def changed_since_the_end(folder: Path, history: History) -> list[str]:
    """Files of a finished run that are not what its last end left."""
    ends = [entry for entry in history if entry.what == "run"]
    if not ends:
        return []
    left, now = ends[-1].files, digests(folder, OF_THE_RUN)
    return sorted(name for name in {*left, *now} if left.get(name) != now.get(name))
