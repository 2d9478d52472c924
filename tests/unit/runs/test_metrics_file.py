"""Metrics that no run writes are refused by line, and the largest epsilon told is the one kept."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from securefg.foundation.errors import RunFolderError
from securefg.runs.metrics_file import most_told, read_metrics

LINE = {
    **dict.fromkeys(("train_loss", "val_loss", "val_accuracy", "test_accuracy", "seconds"), 0.5),
    **dict.fromkeys(("bytes_up", "bytes_down", "dropped"), 3),
    "epsilon": {"client": 2.0, "node": None},
}


def written(folder: Path, *lines: dict[str, object]) -> Path:
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps({**LINE, **line}) + "\n" for line in lines))
    return path


def test_what_a_run_writes_is_read(tmp_path: Path) -> None:
    first, second = read_metrics(written(tmp_path, {"round": 1}, {"round": 4}))
    assert (first["round"], second["round"], second["epsilon"]) == (1, 4, LINE["epsilon"])
    assert read_metrics(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    "change",
    [
        *({"epsilon": {"client": value}} for value in ("x", math.nan, math.inf, [1], -1, True)),
        {"epsilon": {"client": 10**400}},
        {"train_loss": 1.7e308},
        {"val_loss": math.nan},
        {"dropped": "none"},
        {"dropped": -1},
        {"round": 0},
        {"round": 10**400},
        {"round": 1},
        {"more": 1},
    ],
    ids=str,
)
def test_what_no_run_writes_is_refused_by_its_line(
    change: dict[str, object], tmp_path: Path
) -> None:
    path = written(tmp_path, {"round": 1}, {"round": 2, **change})
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl:2: not a round's metrics") as told:
        read_metrics(path)
    assert "\n" not in str(told.value)


def test_the_largest_epsilon_told_counts_wherever_it_stands() -> None:
    told = most_told([{"client": 3.0, "node": None}, {"client": 1.0, "node": 2.0}, {}])
    assert told == {"client": 3.0, "node": math.inf}
