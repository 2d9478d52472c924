"""Findings as they are stored: those that an audit of this very folder wrote, and no others.

`audit/findings.json` is checked against `history.jsonl`, which an audit writes first. If an audit's
findings were taken away, the history tells what it found and that the rest is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audits.findings.history import FILE, FINDINGS, Entry, History, read_history
from audits.findings.record import MISSING, NOT_RECORDED, SCHEMA, EndedAudit, Finding, Verdict
from securefg.foundation.errors import RunFolderError
from securefg.foundation.json_text import parse_json, read_bounded, read_json
from securefg.foundation.settings import explain_fault


def findings_of(folder: Path, record: str | None) -> tuple[Finding, ...] | None:
    """Return all findings about this record that stand, or None if the run was not audited.

    record  the last link of the run's transcript, or None for an exchange
    """
    history, path = read_history(folder), folder / FINDINGS
    if path.is_file():
        return tuple(read_findings(path, record))
    lost = last_audit(history, record)
    found = () if lost is None else lost.found
    return (*found, *missing_findings(history, record, gone=True)) or None


def read_findings(path: Path, record: str | None = None) -> list[Finding]:
    """Return the findings of an audit, and a finding for every missing audit. Raise RunFolderError
    for a file that is damaged, of another schema, or not written by an audit of this folder.

    record  the last link of the transcript that they must be about, or None if that is not known
    """
    folder = path.parent.parent
    try:
        content = read_bounded(path)
        tree = parse_json(content)
        if tree["schema"] != SCHEMA:
            raise RunFolderError(
                f"{path}: findings of schema {tree['schema']}; wanted {SCHEMA}: run `securefg "
                "audit` on the folder again"
            )
        about = tree["run"].get("record")
        if record is not None and about != record:
            raise RunFolderError(
                f"{path}: findings about another run, or about another record of this one; "
                "`securefg audit` without --only makes them anew"
            )
        stored_findings = [
            Finding.model_validate({"terms": NOT_RECORDED, **entry}) for entry in tree["findings"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = explain_fault(error)
        raise RunFolderError(f"{path}: no findings can be read here: {why}") from error
    history = read_history(folder)
    _require_written(path, content, last_audit(history, about), tree)
    return [*stored_findings, *missing_findings(history, about)]


def ended_audits(path: Path) -> list[EndedAudit]:
    """Return the audits that ended, from findings that can be read. A file of an older version
    lists none."""
    try:
        return [EndedAudit.model_validate(entry) for entry in read_json(path).get("audits", [])]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{path}: no audits can be read here: {error}") from error


def last_audit(history: History, record: str | None) -> Entry | None:
    """Return the history's last entry about these findings, if there is one."""
    own = [e for e in history if e.what == "audit" and e.record == record]
    return own[-1] if own else None


def _require_written(path: Path, content: bytes, by: Entry | None, tree: Any) -> None:
    """Raise unless the last audit wrote this, and name what is otherwise."""
    again = "`securefg audit` without --only makes them anew"
    if by is None:
        raise RunFolderError(
            f"{path}: no audit of this folder wrote these findings ({FILE} has none, or was taken "
            f"away); {again}"
        )
    if hashlib.sha256(content).hexdigest() not in (by.files.get(FINDINGS), by.before):
        changed = _changed_words(by, [Finding.model_validate(entry) for entry in tree["findings"]])
        raise RunFolderError(f"{path}: changed since {by.words} wrote it: {changed}; {again}")


def _changed_words(by: Entry, found: Sequence[Finding]) -> str:
    """Return which of the noted findings are not as they were, in words."""
    here = {(f.attack, f.adversary, f.metric): f for f in found}
    change_texts = []
    for noted in by.found:
        now = here.get((noted.attack, noted.adversary, noted.metric))
        if now is None:
            change_texts.append(
                f"{noted.attack} ({noted.adversary}) was {noted.verdict} and is gone"
            )
        elif (now.verdict, now.gain) != (noted.verdict, noted.gain):
            is_now = f"is {now.verdict}" if now.verdict != noted.verdict else "has other figures"
            change_texts.append(
                f"{noted.attack} ({noted.adversary}) was {noted.verdict} and {is_now}"
            )
    return ", ".join(change_texts[:3]) or "not in a verdict that was noted"


def missing_findings(
    history: History, record: str | None, *, gone: bool = False
) -> tuple[Finding, ...]:
    """Return a finding for every audit that is known to have been, and whose findings were taken
    away.

    gone  there are none at all now
    """
    audits = [e for e in history if e.what == "audit" and e.record == record]
    places = [place for place, entry in enumerate(audits) if entry.lost]
    kept = len(audits) if gone else places[-1] if places else 0
    again = [entry for entry in audits[kept:] if entry.ended]
    taken = dict.fromkeys(e.words for e in audits[:kept] if not _made_again(e, again))
    unknown = [NO_HISTORY] if any(entry.what == "unknown" for entry in history) else []
    words = [f"the findings of {name} were taken away: {REST}" for name in taken]
    return tuple(_missing_finding(text) for text in (*unknown, *words))


REST = (
    "what it found stands, the rest of it is not known; the same audit, asked again, makes it anew"
)
NO_HISTORY = (
    f"{FILE} was taken away, or the run is of an older version: whether audits found anything "
    "before is not known"
)


def _made_again(entry: Entry, later: Sequence[Entry]) -> bool:
    """Return whether a later audit had the same terms and asked for the same or for everything."""
    wanted = (entry.asked, "everything")
    return any(other.terms == entry.terms and other.asked in wanted for other in later)


def _missing_finding(because: str) -> Finding:
    return Finding(
        adversary="-",
        attack=MISSING,
        method="-",
        metric="-",
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because=because,
        measured=False,
        failed=True,
    )
