"""Findings: what an audit found, in one versioned schema, and the verdict each figure earns.

VIOLATION     what was measured contradicts what was promised
LEAK          the attack gains over what is known without the run, and the interval excludes zero
NOT_DETECTED  no gain was measured by an attack that works where the defence is off
INCONCLUSIVE  the attack could not run, or its controls say that its silence means nothing
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from securefg.foundation.errors import DataError, RunFolderError
from securefg.foundation.files import write_atomically
from securefg.foundation.interval import Interval
from securefg.foundation.json_text import read_json
from securefg.foundation.npz import read_npz
from securefg.foundation.settings import Settings

SCHEMA = 3


class Verdict(StrEnum):
    VIOLATION = "VIOLATION"
    LEAK = "LEAK"
    NOT_DETECTED = "NOT_DETECTED"
    INCONCLUSIVE = "INCONCLUSIVE"


class Group(Settings):
    """How exposed some of a finding's targets are: by degree, class or client, never one alone."""

    by: str
    name: str
    targets: int
    value: Interval


class Finding(Settings):
    """One attack or one check, against one adversary's view of one run.

    value         what the attack reached, in the unit of `metric`
    prior         what is reached without the run: the headline is `gain`, the value above it
    null          the same guess against permuted truth; `null_at_chance` says that this and `blind`
                  are at chance
    blind         the gain of the same attack with every message made meaningless; None where it
                  then makes no guess
    positive      the gain of the same attack with the defence off, and the `floor` it had to reach
    epsilon_*     for checks of a promised epsilon: claimed, and the measured lower bound
    measured      False where nothing was measured: a need that was not met, a field that no attack
                  read, an adversary whose place no attack took
    failed        the attack or the check broke off; `because` says how
    groups        the same by degree, class and client; `details` has how exposed the ten most
                  exposed are (top_ten), beside the prior's best ten
    made          the day, since an audit of some attacks adds to what is stored
    check         of a promise: the check that made it, whose findings are replaced together
    because       why the verdict is what it is, in words
    """

    adversary: str
    attack: str
    method: str
    metric: str
    unit: str
    verdict: Verdict
    because: str
    value: Interval | None = None
    prior: Interval | None = None
    gain: Interval | None = None
    null: Interval | None = None
    null_at_chance: bool | None = None
    blind: Interval | None = None
    positive: Interval | None = None
    floor: float | None = None
    epsilon_claimed: float | None = None
    epsilon_lower: float | None = None
    epsilon_ceiling: float | None = None
    confidence: float = 0.95
    estimator: str = ""
    targets: int = 0
    details: dict[str, float] = Field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    measured: bool = True
    failed: bool = False
    made: str = ""
    check: str = ""
    seconds: float = 0.0


UNFINISHED = "unfinished_audit"
"""The finding that stands for what an audit has not come to; it goes when the audit ends."""
COVERAGE = frozenset({"unread_field", "untaken_place"})
"""Findings about what nobody read, made anew at the end of every audit."""


class FindingsFile:
    """audit/findings.json, written after every finding; audit/scores.npz at the end.

    An audit of some attacks replaces their findings and leaves the others, each with its day. Until
    it is closed the file says by a finding that what is still to come is missing; where it was
    broken off, an audit that asks for the same or for everything takes that finding away.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, str], findings: list[Finding], asked: str
    ) -> None:
        self._folder, self._about = folder, dict(about)
        self._own = (f"asked for: {asked}",)
        self.findings = [
            f for f in findings if (f.attack, f.assumptions) != (UNFINISHED, self._own)
        ]
        self._today = datetime.now(UTC).date().isoformat()
        self._asked: set[tuple[str, str]] = set()
        self._texts: dict[int, tuple[Finding, str]] = {}
        self._closed = False

    @classmethod
    def begin(
        cls, folder: Path, about: Mapping[str, str], *, anew: bool, asked: str = "everything"
    ) -> FindingsFile:
        folder.mkdir(exist_ok=True)
        path = folder / "findings.json"
        fresh = anew or not path.is_file()
        stored = [] if fresh else read_findings(path, about.get("record"))
        return cls(folder, about, stored, asked)

    def add(self, findings: Iterable[Finding], check: str = "") -> None:
        """Keep these; what was stored of the same attack from the same place goes, and so does what
        it had from no place (`-`), or from any where it has none now. With `check`, whatever that
        check had found goes."""
        if check:
            self.findings = [f for f in self.findings if f.check != check]
        for finding in findings:
            self.findings = [f for f in self.findings if not self._replaced(f, finding)]
            self._asked.add((finding.attack, finding.adversary))
            kept = finding.model_copy(update={"made": self._today, "check": check})
            self.findings.append(kept)
        self._write()

    def _replaced(self, stored: Finding, by: Finding) -> bool:
        """What this audit itself has added stays."""
        places = {stored.adversary, by.adversary}
        return (
            stored.attack == by.attack
            and (len(places) == 1 or "-" in places)
            and (stored.attack, stored.adversary) not in self._asked
        )

    def replace_coverage(self, findings: Iterable[Finding]) -> None:
        self.findings = [f for f in self.findings if f.attack not in COVERAGE]
        self.add(findings)

    def close(self, scores: Mapping[str, NDArray[Any]]) -> None:
        """Store the raw scores beside those of other attacks."""
        path = self._folder / "scores.npz"
        arrays: dict[str, Any] = {}
        if path.is_file():
            kept = tuple(f"{f.attack}/{f.adversary}/" for f in self.findings)
            arrays = {name: of for name, of in _scores(path).items() if name.startswith(kept)}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{**arrays, **scores})
        write_atomically(path, buffer.getvalue())
        self._closed = True
        self._write()

    def _write(self) -> None:
        """As `write_json` would; a finding is put into words once, since all are written again and
        again."""
        about = json.dumps({"schema": SCHEMA, "run": self._about}, indent=2, allow_nan=False)
        found = ",\n".join(map(self._text, self._stored()))
        listed = f"[\n{found}\n  ]" if found else "[]"
        whole = f'{about[:-2]},\n  "findings": {listed}\n}}\n'
        write_atomically(self._folder / "findings.json", whole)

    def _text(self, finding: Finding) -> str:
        if id(finding) not in self._texts:
            tree = finding.model_dump(mode="json")
            text = indent(json.dumps(tree, indent=2, allow_nan=False), "    ")
            self._texts[id(finding)] = (finding, text)  # kept, so that nobody else gets its id
        return self._texts[id(finding)][1]

    def _stored(self) -> list[Finding]:
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


def is_whole(path: Path, record: str | None = None) -> bool:
    """Whether an audit's findings are there and can be read, are of this record, and none broke
    off."""
    try:
        return path.is_file() and all(f.attack != UNFINISHED for f in read_findings(path, record))
    except RunFolderError:
        return False


def _scores(path: Path) -> dict[str, NDArray[Any]]:
    """Raw scores decide nothing; where they cannot be read, those of this audit are kept alone."""
    try:
        return read_npz(path)
    except DataError as error:
        warnings.warn(f"scores of earlier audits are lost: {error}", stacklevel=2)
        return {}


def read_findings(path: Path, record: str | None = None) -> list[Finding]:
    """The findings of an audit; refuses a file that is damaged or of another schema.

    record  the last link of the transcript that they must be about; None where that is not known
    """
    try:
        tree = read_json(path)
        if tree["schema"] != SCHEMA:
            raise RunFolderError(
                f"{path}: findings of schema {tree['schema']}; wanted {SCHEMA}: run `securefg "
                "audit` on the folder again"
            )
        if record is not None and tree["run"].get("record") != record:
            raise RunFolderError(
                f"{path}: findings about another run, or about another record of this one; "
                "`securefg audit` without --only makes them anew"
            )
        return [Finding.model_validate(entry) for entry in tree["findings"]]
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise RunFolderError(f"{path}: no findings can be read here: {where}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{path}: no findings can be read here: {error}") from error
