"""A curve's plan, its choice, and the words for what is wrong with a config."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from audits.curves.collect import choose, interval, objections
from audits.curves.plan import plan_curve
from audits.curves.settings import load_curve
from securefg.foundation.errors import SecurefgError
from securefg.foundation.interval import Interval
from securefg.reports.curve.data import CurvePoint, Leak, Limits
from tests.small import tree

CURVES = sorted(Path("configs").glob("curve_*.yaml"))
NOISE = {"name": "local_gaussian", "epsilon": [4, 1], "privacy": {"unit": "row"}}


def written(tmp_path: Path, **changes: object) -> Path:
    """A curve config over a small run's config."""
    run = tree(tmp_path / "runs")
    run["method"]["weighting"] = "equal"
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(run))
    sweep = {"config": "small.yaml", "defences": [{"name": "none"}, NOISE]}
    sweep |= {key: value for key, value in changes.items() if key in ("defences", "attacks", "set")}
    whole = {key: value for key, value in changes.items() if key not in sweep}
    path = tmp_path / "curve.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 2, **whole}))
    return path


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.stem)
def test_shipped_curves_are_whole(path: Path) -> None:
    assert plan_curve(load_curve(path), path).points


def test_every_defence_at_every_strength_is_run_for_every_seed(tmp_path: Path) -> None:
    path = written(tmp_path)
    plan = plan_curve(load_curve(path), path)
    assert [setting.epsilon for setting in plan.settings] == [None, 1, 4]
    assert len(plan.points) == len({point.config.hash for point in plan.points}) == 6
    assert plan.settings[1].runs[0].config.privacy.target_epsilon == 1
    assert set(plan.audits) == {point.config.hash for point in plan.points}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attacks": ["telepathy"]}, "attack: unknown 'telepathy'; allowed: "),
        ({"defences": []}, "sweeps.0.defences"),
        ({"defences": [{"name": "local_gaussian", "epsilon": [0]}]}, "0.0 is no epsilon"),
        ({"defences": [{"name": "local_gaussian"}]}, "has no epsilon"),
        ({"defences": [{"name": "secagg", "epsilon": [1]}]}, "promises no epsilon"),
        ({"sweeps": []}, "sweeps"),
        ({"adversaries": ["martian"]}, "no adversary 'martian'"),
        ({"limits": {"epsilon": -1}}, "limits.epsilon"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(SecurefgError, match=r"(?s).*") as error:
        plan_curve(load_curve(path), path)
    assert words in str(error.value)
    assert len(str(error.value).splitlines()) <= 3


def test_an_attack_that_was_named_is_asked_for_though_it_may_not_apply(tmp_path: Path) -> None:
    """That it could not be run is then a finding of every run; `objections` counts it."""
    path = written(tmp_path, attacks=["drift", "adjacency_nnls"])
    plans = plan_curve(load_curve(path), path).audits.values()
    assert {plan.only for plan in plans} == {("drift", "adjacency_nnls", "promises")}
    every = plan_curve(load_curve(written(tmp_path)), path).audits.values()
    assert {plan.only for plan in every} == {()}


def point(name: str, accuracy: float, epsilon: float | None, gain: float | None) -> CurvePoint:
    found = None if gain is None else Interval(value=gain, low=gain, high=gain)
    verdict = "LEAK" if gain else "INCONCLUSIVE"
    leak = Leak(
        attack="a", adversary="server", metric="", unit="", verdict=verdict, because="", gain=found
    )
    level = Interval(value=accuracy, low=accuracy, high=accuracy)
    return CurvePoint(
        key=name, series="s", defence=name, epsilon=epsilon, accuracy=level, leaks=(leak,)
    )


def test_the_most_accurate_point_within_the_limits_is_chosen() -> None:
    points = [
        point("open", 0.9, None, 0.5),
        point("loose", 0.8, 64, 0.0),
        point("right", 0.7, 8, 0.01),
        point("tight", 0.5, 1, 0.0),
    ]
    assert choose("s", points, Limits(epsilon=8, leak_gain=0.05)).point == "right"
    assert choose("s", points, Limits()).point == "open"
    assert choose("s", points, Limits(epsilon=8, accuracy=0.7)).point == "right"
    nobody = choose("s", points, Limits(epsilon=0.1))
    assert nobody.point is None
    assert "no setting meets the limits" in nobody.words


def test_a_model_that_is_not_worth_having_is_not_chosen() -> None:
    points = [point("open", 0.9, None, 0.5), point("noisy", 0.2, 8, 0.0)]
    limits = Limits(epsilon=8, leak_gain=0.05)
    assert choose("s", points, limits).point == "noisy"
    nobody = choose("s", points, limits.model_copy(update={"accuracy": 0.5}))
    assert nobody.point is None
    assert nobody.words.endswith("noisy at epsilon 8 comes nearest: accuracy is 0.200")


def test_what_could_not_be_measured_does_not_meet_a_limit() -> None:
    assert objections(point("blind", 0.9, 1, None), Limits(leak_gain=0.05)) == [
        "a could not be measured"
    ]


@pytest.mark.parametrize(("verdict", "count"), [("NOT_DETECTED", 0), ("LEAK", 1)])
def test_a_check_without_a_gain_counts_by_its_verdict(verdict: str, count: int) -> None:
    blind = point("algebra", 0.9, 1, None)
    judged = blind.model_copy(
        update={
            "leaks": tuple(leak.model_copy(update={"verdict": verdict}) for leak in blind.leaks)
        }
    )
    assert len(objections(judged, Limits(leak_gain=0.05))) == count


def test_the_interval_is_students() -> None:
    found = interval([0.1, 0.2, 0.3])
    assert found.value == pytest.approx(0.2)
    assert found.high - found.value == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert interval([0.4]) == Interval(value=0.4, low=0.4, high=0.4)
