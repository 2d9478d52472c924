"""audit/findings.json as it is written: after every finding, and never milder than it was.

The worst finding stands if a run is audited more than once. Another seed, other trials or another
smallest gain draw again, and retrying until the verdict is mild would be p-hacking. A milder
finding on other terms therefore replaces no stored finding, and on the same terms only a
measurement replaces it. Findings of an `audit` folder that was deleted are told from the history
and stand all the same.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import Any

from numpy.typing import NDArray

from audits.findings.history import FILE as HISTORY
from audits.findings.history import (
    FINDINGS,
    SCORES,
    Entry,
    History,
    file_digest,
    new_entry,
    read_history,
    write_history,
)
from audits.findings.record import (
    COVERAGE,
    MISSING,
    SCHEMA,
    UNFINISHED,
    WORST_FIRST,
    EndedAudit,
    Finding,
    Verdict,
)
from audits.findings.stored import ended_audits, last_audit, missing_findings, read_findings
from securefg.foundation.errors import DataError, RunFolderError
from securefg.foundation.files import write_atomically
from securefg.foundation.npz import packed_npz, read_npz

MOST_TOLD = 100


class FindingsFile:
    """A writer of audit/findings.json after every finding, and of audit/scores.npz at the end.

    An audit of some attacks replaces their findings and leaves the others, each with its day. A
    finding that was worse on other terms stands. Until the file is closed, a finding in it says
    that the rest is missing. If an audit was broken off, a later audit that asks for the same or
    for everything takes that finding away. Everything that is written is noted first in the history
    of the run (`audits.findings.history`), which lies beside `folder`.
    """

    def __init__(
        self,
        folder: Path,
        about: Mapping[str, str],
        audit: EndedAudit,
        findings: Iterable[Finding] = (),
        ended: Iterable[EndedAudit] = (),
        *,
        past: History,
        lost: bool,
        before: str,
    ) -> None:
        self._folder, self._about, self._audit = folder, dict(about), audit
        self._past, self._record = past, about.get("record")
        self._entry = new_entry(
            "audit",
            record=self._record,
            asked=audit.asked,
            terms=audit.terms,
            ended=False,
            lost=lost,
            files={FINDINGS: before},
        )
        self._ended = [one for one in ended if one != audit]
        self._own = (f"asked for: {audit.asked}",)
        self.findings = [
            f for f in findings if (f.attack, f.assumptions) != (UNFINISHED, self._own)
        ]
        self._today = datetime.now(UTC).date().isoformat()
        self._asked: set[tuple[str, str]] = set()
        self._dropped: set[tuple[str, str]] = set()
        self._texts: dict[int, tuple[Finding, str]] = {}
        self._closed = False

    @classmethod
    def begin(
        cls,
        folder: Path,
        about: Mapping[str, str],
        *,
        anew: bool,
        asked: str = "everything",
        terms: str = "",
    ) -> FindingsFile:
        """Return a file to which findings are added.

        With `anew` only true findings are kept. A file that cannot be read is written over, and
        findings that only say that nothing was measured are dropped.
        """
        folder.mkdir(exist_ok=True)
        path, audit = folder / "findings.json", EndedAudit(asked=asked, terms=terms)
        record, past = about.get("record"), read_history(folder.parent)
        last, lost, before = last_audit(past, record), False, ""
        stored: list[Finding] = []
        ended: list[EndedAudit] = []
        try:
            if path.is_file():
                stored, ended = read_findings(path, record), ended_audits(path)
                before = file_digest(path)
            lost = last is not None and not path.is_file()
        except RunFolderError:
            if not anew:
                raise
            lost = last is not None
        if last is not None and lost:
            stored = [_told_from(last, finding) for finding in last.found]
        kept = (f for f in stored if f.attack != MISSING and (_was_found(f) or not anew))
        return cls(folder, about, audit, kept, ended, past=past, lost=lost, before=before)

    @property
    def told(self) -> list[Finding]:
        """Return the findings, and a finding for every missing audit."""
        return [*self.findings, *missing_findings((*self._past, self._entry), self._record)]

    def add(self, findings: Iterable[Finding], check: str = "") -> None:
        """Keep these findings, and drop those that they replace.

        A stored finding of the same attack from the same place is replaced. A stored finding
        without a place (`-`) is replaced too, and a new finding without a place replaces all of its
        attack. With `check`, everything that this check had found is replaced. A stored finding
        that was worse on other terms stands, and the new findings are told beside it.
        """
        own = {"made": self._today, "check": check, "terms": self._audit.terms}
        now = [finding.model_copy(update=own) for finding in findings]
        kept, milder = [], []
        for stored in self.findings:
            by = now if check and stored.check == check else self._instead_of(stored, now)
            same = [one for one in by if _finding_key(one) == _finding_key(stored)]
            if not by and not (check and stored.check == check):
                kept.append(stored)
            elif still_stands(stored, same, self._audit.terms, broke=any(map(is_broken, by))):
                kept.append(told_beside(stored, same))
                milder += same
        added = [one for one in now if not any(one is other for other in milder)]
        self.findings = [*kept, *added]
        self._asked |= {(one.attack, one.adversary) for one in now}
        self._dropped |= {(one.attack, one.adversary) for one in milder}
        self._write_file()

    def _instead_of(self, stored: Finding, now: Sequence[Finding]) -> list[Finding]:
        """Return the new findings that replace a stored one. Findings that this audit itself added
        stay."""
        if (stored.attack, stored.adversary) in self._asked:
            return []
        places = {stored.adversary, "-"}
        return [
            one
            for one in now
            if one.attack == stored.attack and (stored.adversary == "-" or one.adversary in places)
        ]

    def replace_coverage(self, findings: Iterable[Finding]) -> None:
        """Replace the findings about what no attack measured."""
        self.findings = [f for f in self.findings if f.attack not in COVERAGE]
        self.add(findings)

    def close(self, scores: Mapping[str, NDArray[Any]]) -> None:
        """Store the raw scores beside those of other attacks, each with the finding that stands."""
        path = self._folder / "scores.npz"
        arrays: dict[str, Any] = {}
        if path.is_file():
            kept = tuple(f"{f.attack}/{f.adversary}/" for f in self.findings)
            arrays = {name: of for name, of in _load_scores(path).items() if name.startswith(kept)}
        dropped = tuple(f"{attack}/{adversary}/" for attack, adversary in self._dropped)
        new = {name: of for name, of in scores.items() if not name.startswith(dropped)}
        write_atomically(path, packed_npz({**arrays, **new}))
        self._closed = True
        wrote = {**self._entry.files, SCORES: file_digest(path)}
        self._entry = self._entry.model_copy(update={"files": wrote, "ended": True})
        self._ended.append(self._audit)
        self._write_file()

    def _write_file(self) -> None:
        """Write the file as `write_json` would. Each finding is encoded only once, since all
        findings are written again and again."""
        ended = [one.model_dump() for one in self._ended]
        tree = {"schema": SCHEMA, "run": self._about, "audits": ended}
        about = json.dumps(tree, indent=2, allow_nan=False)
        found = ",\n".join(map(self._finding_text, self._stored_findings()))
        listed = f"[\n{found}\n  ]" if found else "[]"
        whole = f'{about[:-2]},\n  "findings": {listed}\n}}\n'
        self._note_history(hashlib.sha256(whole.encode()).hexdigest())
        write_atomically(self._folder / "findings.json", whole)

    def _note_history(self, next: str) -> None:
        """Note the findings in the history before they are written, so that a failed write is known
        too."""
        noted_findings = tuple(
            f.model_copy(update={"details": {}, "groups": ()})
            for f in self.findings
            if _was_found(f)
        )
        files = self._entry.files
        now = {
            "files": {**files, FINDINGS: next},
            "before": files[FINDINGS],
            "found": noted_findings,
        }
        self._entry = self._entry.model_copy(update=now)
        write_history(self._folder.parent, (*self._past, self._entry))

    def _finding_text(self, finding: Finding) -> str:
        if id(finding) not in self._texts:
            tree = finding.model_dump(mode="json")
            text = indent(json.dumps(tree, indent=2, allow_nan=False), "    ")
            self._texts[id(finding)] = (finding, text)  # kept, so that nobody else gets its id
        return self._texts[id(finding)][1]

    def _stored_findings(self) -> list[Finding]:
        if self._closed:
            return self.findings
        missing = Finding(
            adversary="-",
            attack=UNFINISHED,
            method=self._about.get("method", "-"),
            metric="-",
            unit="-",
            verdict=Verdict.INCONCLUSIVE,
            because="an audit of this run has not ended: what it would have found is missing; "
            "`securefg audit` makes it anew",
            assumptions=self._own,
            failed=True,
            made=self._today,
        )
        return [*self.findings, missing]


def _finding_key(finding: Finding) -> tuple[str, str, str]:
    """Return the key of a finding. One attack from one place has one finding, and a check may have
    several."""
    return finding.attack, finding.adversary, finding.metric if finding.check else ""


def _was_found(finding: Finding) -> bool:
    found = finding.verdict is not Verdict.NOT_DETECTED and says_something(finding)
    return found and finding.attack not in COVERAGE


def _told_from(entry: Entry, finding: Finding) -> Finding:
    if HISTORY in finding.because:
        return finding
    because = f"{finding.because} (told from {HISTORY}: the findings of {entry.words} were gone)"
    return finding.model_copy(update={"because": because})


def is_whole(path: Path, record: str | None = None, wanted: EndedAudit | None = None) -> bool:
    """Return whether an audit's findings exist, can be read, are of this record, and none broke
    off. With `wanted`, return whether exactly that audit ended."""
    try:
        whole = path.is_file() and all(f.attack != UNFINISHED for f in read_findings(path, record))
        return whole and (wanted is None or wanted in ended_audits(path))
    except RunFolderError:
        return False


def _load_scores(path: Path) -> dict[str, NDArray[Any]]:
    """Return the stored raw scores, or none if they cannot be read. Raw scores decide nothing."""
    try:
        return read_npz(path)
    except DataError as error:
        warnings.warn(f"scores of earlier audits are lost: {error}", stacklevel=2)
        return {}


# ------------------------------------------------------------------------------ which one stands


def still_stands(stored: Finding, now: Sequence[Finding], terms: str, *, broke: bool) -> bool:
    """Return whether a stored finding stays if an audit on these `terms` says `now` about the same.

    broke  the attack or check that should say it again did not come to its end
    """
    if not says_something(stored) or (stored.terms == terms and not broke):
        return False
    if not now:
        return stored.verdict in (Verdict.VIOLATION, Verdict.LEAK)
    return finding_severity(stored) > max(map(finding_severity, now))


def says_something(finding: Finding) -> bool:
    """Return whether a finding tells something: it did not break off, and had enough trials."""
    if is_broken(finding):
        return False
    figures = finding.gain is not None or finding.estimator == "law"
    return figures or finding.verdict is not Verdict.INCONCLUSIVE


def is_broken(finding: Finding) -> bool:
    """Return whether the attack failed or was not run, so that it measured nothing."""
    return finding.failed or not finding.measured


def finding_severity(finding: Finding) -> tuple[int, float]:
    """Return a key that is larger for a worse finding: by verdict, then by gain."""
    gained = finding.gain.value if finding.gain else finding.epsilon_lower
    return -WORST_FIRST.index(finding.verdict), gained or 0.0


def told_beside(stored: Finding, now: Sequence[Finding]) -> Finding:
    """Return the finding that stands, with what later audits said instead: once for all audits on
    like terms."""
    milder = {terms: said for terms, _, said in (text.partition(": ") for text in stored.milder)}
    for one in now:
        milder[one.terms or "the default terms"] = f"{_verdict_text(one)} ({one.made})"
    told = [f"{terms}: {said}" for terms, said in milder.items()]
    return stored.model_copy(update={"milder": tuple(told[-MOST_TOLD:])})


def _verdict_text(finding: Finding) -> str:
    gain = f" {finding.gain.value:+.3f}" if finding.gain else ""
    return f"{finding.verdict}{gain}"
