"""A curve says before its first run why it cannot end green, and roughly what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from audits.curves.command import draw_curve, refuse_impossible
from audits.curves.forecast import describe_work, warn_of_red
from audits.curves.plan import CurvePlan, plan_curve
from audits.curves.settings import load_curve
from tests.small import tree

NOISE = {"name": "local_gaussian", "epsilon": [4, 16], "privacy": {"unit": "client"}}


def planned(tmp_path: Path, defence: dict[str, Any], **changes: Any) -> CurvePlan:
    run = tree(tmp_path / "runs")
    run["method"]["weighting"] = "clients"
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(run))
    alone = {"config": "small.yaml", "set": ["method={name: alone}"]}
    sweep = {"config": "small.yaml", "label": "s", "defences": [defence], "alone": alone}
    path = tmp_path / "curve.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 3, **changes}))
    return plan_curve(load_curve(path), path)


@pytest.mark.parametrize(
    ("defence", "changes", "words"),
    [
        (NOISE, {}, []),
        (NOISE, {"limits": {"epsilon": 8}}, []),
        (NOISE, {"seeds": 1}, ["seeds: found 1; a recommendation needs 3: add --seeds 3"]),
        (NOISE, {"limits": {"epsilon": 2}}, ["the smallest epsilon per client is 4; limits"]),
        ({"name": "none"}, {"limits": {"epsilon": 2}}, ["no setting promises an epsilon"]),
        (NOISE, {"limits": {"epsilon": 4, "unit": "node"}}, ["the smallest epsilon per node is"]),
    ],
)
def test_warn_of_red_tells_what_the_config_shows(
    tmp_path: Path, defence: dict[str, Any], changes: dict[str, Any], words: list[str]
) -> None:
    plan = planned(tmp_path, defence, **changes)
    told = list(warn_of_red(plan, refuse_impossible(plan, tmp_path)))
    assert len(told) == len(words), told
    assert all(part in line for part, line in zip(words, told, strict=True)), told


def test_warn_of_red_without_alone_says_so(tmp_path: Path) -> None:
    plan = planned(tmp_path, NOISE)
    told = list(warn_of_red(plan.__class__(plan.curve, plan.settings, (), plan.audits), {}))
    assert told == ["s: found no `alone`; a recommendation compares with training alone"]


def test_describe_work_counts_missing_runs_with_time_and_disk(tmp_path: Path) -> None:
    plan = planned(tmp_path, NOISE)
    line = describe_work(plan, tmp_path, 2, refuse_impossible(plan, tmp_path))
    assert line.startswith("9 runs with audits, 2 jobs at a time: roughly ")
    assert line.endswith(" MiB of disk (from public sizes)")


def test_draw_curve_tells_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(Exception):
        """The work has begun."""

    def begin(*_: object) -> None:
        raise Begun

    planned(tmp_path, NOISE, seeds=1)
    monkeypatch.setattr("audits.curves.command.carry_out", begin)
    printed_lines: list[str] = []
    with pytest.raises(Begun):
        draw_curve(tmp_path / "curve.yaml", tmp_path / "c", 1, tell=printed_lines.append)
    assert printed_lines[0].startswith("cannot end green: seeds: found 1")
    assert printed_lines[-1].startswith("3 runs with audits, 1 job at a time")
