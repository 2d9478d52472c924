"""JSON files are read up to a size and a depth; every fault is a `ValueError`."""

from __future__ import annotations

from pathlib import Path

import pytest

from audits.findings.stored import read_findings
from securefg.foundation.errors import RunFolderError
from securefg.foundation.json_text import MOST_BYTES, read_json
from securefg.runs.fingerprints import read_fingerprints
from securefg.runs.summary import read_summary


@pytest.mark.parametrize(
    ("text", "times"),
    [("[", 200_000), ("{", 1), (" ", MOST_BYTES + 1)],
    ids=["deep", "cut", "long"],
)
def test_faults_are_value_errors(text: str, times: int, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text * times)
    with pytest.raises(ValueError, match=r"nested|Expecting|MiB"):
        read_json(tmp_path / "a.json")


def test_a_file_of_any_size_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    """Three sparse terabytes; each reader answers in a line."""
    for name in ("findings.json", "summary.json", "fingerprints.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(3 * 2**40)
    for read in (
        lambda: read_findings(tmp_path / "findings.json"),
        lambda: read_summary(tmp_path / "summary.json"),
        lambda: read_fingerprints(tmp_path),
    ):
        with pytest.raises(RunFolderError) as said:
            read()
        assert len(str(said.value)) < 400
