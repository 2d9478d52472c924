"""A curve's plan, its choice, and the words for what is wrong with a config."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from audits.curves.collect import _make_point, _make_series, _pool_leaks, _scores_alone, is_audited
from audits.curves.plan import Asked, plan_curve
from audits.curves.pooled import over_seeds_and_targets, pooled_verdict
from audits.curves.recommend import (
    choose_point,
    list_objections,
)
from audits.curves.settings import load_curve
from audits.findings.record import Finding, Verdict
from audits.run import audit
from securefg.foundation.errors import RunFolderError, SecurefgError
from securefg.foundation.interval import Interval, interval
from securefg.reports.curve_data import Choice, CurvePoint, Leak, Limits, RunRef, Series
from securefg.runs import runner
from securefg.runs.summary import ClaimedEpsilon
from securefg.settings.privacy import Unit
from securefg.sweep import fault_of, find_run, find_runs
from tests.small import config as small_config
from tests.small import tree

CURVES = sorted(Path("configs").glob("curve_*.yaml"))
NOISE = {"name": "local_gaussian", "epsilon": [4, 1], "privacy": {"unit": "row"}}

MASKS_OFF = ["privacy.secure_aggregation=null"]
NOISED = {"mechanism": "local_gaussian", "target_epsilon": 1, "unit": "row"}


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


def test_plan_curve_with_a_first_seed_runs_the_seeds_from_it_on(tmp_path: Path) -> None:
    path = written(tmp_path, first_seed=40)
    plan = plan_curve(load_curve(path), path)
    assert {point.config.seed for point in plan.points} == {40, 41}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attacks": ["telepathy"]}, "attack: found 'telepathy'; expected "),
        ({"defences": []}, "sweeps.0.defences"),
        (
            {"defences": [{"name": "local_gaussian", "epsilon": [0]}]},
            "found 0; expected numbers",
        ),
        ({"defences": [{"name": "local_gaussian"}]}, "has no epsilon"),
        ({"defences": [{"name": "secagg", "epsilon": [1]}]}, "promises no epsilon"),
        ({"defences": [NOISE, {**NOISE, "privacy": {"clip_l2": 2}}]}, "two settings are called"),
        ({"defences": [{"name": "secagg", "set": MASKS_OFF}]}, "'secagg' has the mechanism plain"),
        ({"defences": [{"name": "none", "privacy": NOISED}]}, "'none' has the mechanism local_g"),
        ({"sweeps": []}, "sweeps"),
        ({"limits": {"leak_gain": float("inf")}}, "limits.leak_gain"),
        ({"limits": {"epsilon": float("nan")}}, "limits.epsilon"),
        ({"defences": [{"name": "local_gaussian", "epsilon": [float("nan")]}]}, "finite number"),
        ({"adversaries": ["martian"]}, "adversary: found 'martian'; expected server"),
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


def test_two_sweeps_of_one_setting_do_not_ask_for_different_attacks(tmp_path: Path) -> None:
    """One audit is made of a run: the attacks of the other sweep would never be played."""
    path = written(tmp_path, attacks=["drift"])
    curve = yaml.safe_load(path.read_text())
    (sweep,) = curve["sweeps"]
    curve["sweeps"] = [{**sweep, "label": "a"}, {**sweep, "label": "b", "attacks": ["vocabulary"]}]
    path.write_text(yaml.safe_dump(curve))
    with pytest.raises(SecurefgError, match="two sweeps that ask for other attacks"):
        plan_curve(load_curve(path), path)
    curve["sweeps"][1]["attacks"] = ["drift"]
    path.write_text(yaml.safe_dump(curve))
    assert len(plan_curve(load_curve(path), path).settings) == 6


def test_a_curve_takes_no_audit_on_other_terms_for_its_own(tmp_path: Path) -> None:
    """Nor one that asked other attacks, or judged by a larger smallest gain."""
    path = written(tmp_path, attacks=["drift"])
    plan = plan_curve(load_curve(path), path)
    config = plan.settings[0].runs[0].config
    mine = plan.audits[config.hash]
    folder = runner.start(config).folder
    others = [
        replace(mine, seed=7),
        replace(mine, trials=1000),
        replace(mine, only=("promises",)),
        replace(mine, overrides=("audit.leak_threshold=0.5",)),
    ]
    for other in others:
        audit(folder.path, other)
        assert not is_audited(folder, mine)
    audit(folder.path, mine)
    assert is_audited(folder, mine)


SERIES = Series(name="s", method="m", dataset="d", clients=3)
LIMITS = Limits(epsilon=8, leak_gain=0.05)


def leak(gain: float | None, reach: float = 0.0, verdict: str = "NOT_DETECTED") -> Leak:
    gain_interval = (
        None if gain is None else Interval(value=gain, low=gain - reach, high=gain + reach)
    )
    return Leak(
        attack="a",
        adversary="server",
        metric="",
        unit="",
        verdict=verdict,
        because="",
        sound=verdict != "INCONCLUSIVE",
        gain=gain_interval,
    )


def point(
    name: str, accuracy: float, epsilon: float | None, *leaks: Leak, seeds: int = 3
) -> CurvePoint:
    reached = tuple(accuracy + 0.01 * k for k in range(seeds))
    return CurvePoint(
        key=name,
        series="s",
        defence=name,
        epsilon=epsilon,
        accuracy=interval(reached),
        accuracies=reached,
        no_skill=(0.2,) * seeds,
        alone_accuracies=(0.3, 0.31, 0.29)[:seeds],
        made_by=("0.1",),
        default_leaks=(),
        leaks=leaks or (leak(0.0),),
    )


def chosen(*points: CurvePoint, limits: Limits = LIMITS, series: Series = SERIES) -> Choice:
    return choose_point(series, points, limits, "securefg curve own.yaml")


def test_the_best_point_within_the_limits_is_chosen() -> None:
    points = [
        point("open", 0.9, None, leak(0.5, verdict="LEAK")),
        point("loose", 0.8, 64),
        point("right", 0.7, 8, leak(0.01, 0.03)),
        point("tight", 0.5, 1),
    ]
    assert chosen(*points).point == "right"
    assert chosen(*points, limits=Limits()).point == "open"
    assert chosen(*points, limits=Limits(epsilon=8, accuracy=0.68)).point == "right"
    nobody = chosen(*points, limits=Limits(epsilon=0.1))
    assert nobody.point is None
    assert "no setting is recommended" in nobody.words


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [
        (point("p", 0.7, 8, leak(0.01, 0.05)), "a by server may gain up to +0.060"),
        (point("p", 0.7, 8, leak(0.0, verdict="INCONCLUSIVE")), "the measurement did not hold"),
        (point("p", 0.7, 8, leak(None, verdict="INCONCLUSIVE")), "the measurement did not hold"),
        (point("p", 0.7, 8, leak(None, verdict="LEAK")), "a by server leaks"),
        (point("p", 0.7, 8, leak(0.2, verdict="LEAK")), "a by server leaks"),
        (point("p", 0.7, 8, leak(0.2, verdict="TRACE")), "a by server may gain up to +0.200"),
        (point("p", 0.7, 8, seeds=1), "1 seed of at least 3"),
        (point("p", 0.7, 8, seeds=2), "2 seeds of at least 3"),
        (point("p", 0.305, 8), "not above training alone by more than the interval"),
        (point("p", 0.18, 8), "not above the majority class by more than the interval"),
        (point("p", 0.7, 64), "epsilon is too large"),
        (point("p", 0.7, None), "no epsilon is promised"),
        (point("p", 0.7, 8).model_copy(update={"no_skill": ()}), "majority class was not measured"),
        (point("p", 0.7, 8).model_copy(update={"leaks": ()}), "no attack was run"),
        (point("p", 0.7, 8).model_copy(update={"alone_accuracies": (0.3,)}), "alone was not"),
        (point("p", 0.7, 8).model_copy(update={"made_by": ("0.1", "0.2")}), "versions (0.1, 0.2)"),
        (point("p", 0.7, 8).model_copy(update={"violations": ("epsilon 9",)}), "epsilon 9"),
        (point("p", 0.7, 8).model_copy(update={"unit": "row"}), "per row, which is no person"),
        (
            point("p", 0.7, 8, leak(0.02, 0.01, "LEAK").model_copy(update={"sound": False})),
            "the measurement did not hold",
        ),
    ],
)
def test_one_thing_that_is_not_known_or_not_met_turns_a_point_not_green(
    spoilt: CurvePoint, words: str
) -> None:
    assert chosen(point("p", 0.7, 8)).point == "p"
    nobody = chosen(spoilt)
    assert nobody.point is None
    assert any(words in said for said in list_objections(spoilt, LIMITS))


def test_the_score_is_held_to_its_limit_by_the_interval() -> None:
    """0.7, 0.71 and 0.72 may be a mean of 0.685."""
    curve_point = point("p", 0.7, 8)
    assert chosen(curve_point, limits=Limits(epsilon=8, leak_gain=0.05, accuracy=0.68)).point == "p"
    limits = Limits(epsilon=8, leak_gain=0.05, accuracy=0.7)
    assert any("may be 0.685" in said for said in list_objections(curve_point, limits))
    assert chosen(curve_point, limits=limits).point is None


def test_where_other_limits_are_set_a_leak_of_any_size_is_not_green() -> None:
    leaking = point("p", 0.7, 8, leak(0.4, 0.1, "LEAK"))
    assert chosen(leaking, limits=Limits(epsilon=8)).point is None
    assert chosen(point("p", 0.7, 8), limits=Limits(epsilon=8)).point == "p"


@pytest.mark.parametrize(
    ("unit", "limit", "objection"),
    [
        ("row", "node", "epsilon is too large (64 per node)"),
        ("client", "node", "epsilon is too large (64 per node)"),
        ("client", "edge", "no epsilon is promised per edge"),
        ("row", "row", ""),
        ("client", None, ""),
    ],
)
def test_an_epsilon_of_another_unit_meets_no_limit(unit: str, limit: Unit, objection: str) -> None:
    claim = ClaimedEpsilon(epsilon=64.0, delta=1e-5, private=True, because=())
    own = claim.model_copy(update={"epsilon": 8.0})
    curve_point = point("p", 0.7, 8).model_copy(
        update={"unit": unit, "claims": {"node": claim, unit: own}}
    )
    limits = Limits(epsilon=8, leak_gain=0.05, unit=limit)
    assert list_objections(curve_point, limits) == ([objection] if objection else [])


def test_training_alone_is_scored_as_the_series_and_on_its_data(tmp_path: Path) -> None:
    """An `alone` that monitors another score, or has another partition, is no level to pass."""
    sweep = {
        "config": "run.yaml",
        "set": ["training.monitor=val_balanced_accuracy"],
        "defences": [{"name": "none"}],
        "alone": {"config": "run.yaml", "set": ["method={name: alone}"]},
    }
    base = tree(tmp_path / "runs")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(base))
    other = {**base, "partition": {"name": "shares", "shares": [0.5, 0.9, 0.7]}}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 1}))
    plan = plan_curve(load_curve(path), path)
    for planned in plan.points:
        runner.start(planned.config)
    runs = find_runs(tmp_path / "runs")
    alone = runs[plan.levels[0].runs[0].config.hash].summary()
    assert alone.test_scores is not None
    found = _scores_alone(plan, plan.settings[0], runs, "balanced_accuracy")
    assert found == (alone.test_scores.balanced_accuracy,)
    sweep["alone"] = {"config": "other.yaml", "set": ["method={name: alone}"]}
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 1}))
    plan = plan_curve(load_curve(path), path)
    runner.start(plan.levels[0].runs[0].config)
    runs = find_runs(tmp_path / "runs")
    assert _make_series(plan, plan.settings[0].series, runs).alone is not None
    assert _scores_alone(plan, plan.settings[0], runs, "balanced_accuracy") == ()


def test_a_defence_on_other_data_is_not_above_training_alone(tmp_path: Path) -> None:
    """A setting may change the data, too: what is trained alone on other data is no level of it."""
    noised = {
        "name": "local_gaussian",
        "epsilon": [8],
        "privacy": {"unit": "row"},
        "set": ["method.weighting=equal", "partition={name: shares, shares: [0.9, 0.9, 0.9]}"],
    }
    sweep = {
        "config": "run.yaml",
        "set": ["training.rounds=1"],
        "defences": [{"name": "none"}, noised],
        "alone": {"config": "run.yaml", "set": ["method={name: alone}", "training.rounds=1"]},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(tree(tmp_path / "runs")))
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 1}))
    plan = plan_curve(load_curve(path), path)
    for planned in plan.points:
        runner.start(planned.config)
    runs = find_runs(tmp_path / "runs")
    plain, other = (_scores_alone(plan, setting, runs, "accuracy") for setting in plan.settings)
    assert (len(plain), other) == (1, ())


def test_point_whose_run_has_no_score_has_failed(tmp_path: Path) -> None:
    """A run whose every round aborts has no score; as a score of zero it would be a result."""
    (tmp_path / "run.yaml").write_text(
        yaml.safe_dump(tree(tmp_path / "runs", "tests.unit.runs.absent"))
    )
    masked = {"name": "secagg", "privacy": {"secure_aggregation": {}}}
    sweep = {"config": "run.yaml", "set": ["training.rounds=1"], "defences": [masked]}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [sweep], "seeds": 1}))
    plan = plan_curve(load_curve(path), path)
    runner.start(plan.points[0].config)
    found = _make_point(plan, plan.settings[0], find_runs(tmp_path / "runs"), {})
    assert found.accuracy is None
    assert found.failed.startswith("a run has no accuracy (every round was aborted: secure ")


def test_a_folder_with_another_run_or_an_edited_one_is_no_run_of_a_curve(tmp_path: Path) -> None:
    """One seed copied under the names of others would be three seeds that agree to the digit."""
    configs = [small_config(tmp_path, "training.rounds=1", f"seed={seed}") for seed in (0, 1)]
    first, second = (runner.start(config).folder for config in configs)
    assert [fault_of(f, c.hash) for f, c in zip((first, second), configs, strict=True)] == ["", ""]
    shutil.rmtree(second.path)
    shutil.copytree(first.path, second.path)
    assert f"its folder is named for {configs[1].hash}" in fault_of(second, configs[1].hash)
    with pytest.raises(RunFolderError, match="its folder is named for"):
        find_run(tmp_path, configs[1].hash)
    summary = first.path / "summary.json"
    found = json.loads(summary.read_text())
    summary.write_text(json.dumps({**found, "test_accuracy": 0.99}))
    said = fault_of(first, configs[0].hash)
    assert said == f"{first.path}: changed since the run ended: summary.json"


def test_what_is_missing_is_said_with_the_command_that_makes_it() -> None:
    unsure = point("p", 0.7, 8, leak(0.0, verdict="INCONCLUSIVE"), seeds=1)
    lonely = unsure.model_copy(update={"alone_accuracies": ()})
    said = "\n".join(chosen(lonely).missing)
    assert "`securefg curve own.yaml --seeds 3`" in said
    assert "add `alone:` to the sweep" in said
    assert "--only a`" in said


def test_a_measurement_that_did_not_hold_is_named_with_its_reason() -> None:
    unsure = leak(0.0, 0.02, "INCONCLUSIVE").model_copy(
        update={"because": "a gain of up to +0.3 could hide here"}
    )
    runs = tuple(RunRef(folder=f"run-s{k}", seed=k, config_hash=str(k)) for k in range(3))
    open_ = point("open", 0.9, None, leak(0.5, verdict="INCONCLUSIVE"))
    open_ = open_.model_copy(update={"leaks": (open_.leaks[0].model_copy(update={"attack": "b"}),)})
    choice = chosen(open_, point("p", 0.7, 8, unsure).model_copy(update={"runs": runs}))
    assert "a by server: the measurement did not hold" in choice.words
    assert "a gain of up to +0.3 could hide here" in choice.words
    assert not choice.concluded
    said = "\n".join(choice.missing)
    assert "`securefg audit runs/run-s0 --only a`" in said
    assert "--only b" not in said, "no promise: it cannot be recommended whatever it leaks"


def test_a_leak_whose_control_shows_nothing_did_not_hold() -> None:
    control = Interval(value=0.0095, low=-0.02, high=0.04)
    update = {"positive": control, "floor": 0.009}
    audits = [[finding(0.03, 0.02, Verdict.LEAK).model_copy(update=update)] for _ in range(3)]
    (told,) = _pool_leaks(audits, Asked(("a",), ("server",)))
    assert not told.sound
    assert "does not reach its floor" in told.because


def test_a_seed_without_the_attack_makes_the_point_inconclusive() -> None:
    audits = [[finding(0.0, 0.02, Verdict.NOT_DETECTED)], [], []]
    (told,) = _pool_leaks(audits, Asked(("a",), ("server",)))
    assert (told.verdict, told.because) == ("INCONCLUSIVE", "measured in 1 of 3 seeds")


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([point("none", 0.9, None, leak(0.5, 0.01, "LEAK"))], "a by server gains at least +0.490"),
        (
            [
                point("none", 0.9, None, leak(0.5, 0.01, "LEAK")),
                point("p", 0.3, 8, leak(0.0, 0.2, "INCONCLUSIVE")).model_copy(
                    update={"alone_accuracies": (0.3, 0.31, 0.32)}
                ),
            ],
            "accuracy 0.310 at epsilon 8, 0.310 by training alone (difference +0.000",
        ),
        (
            [point("p", 0.7, 2, leak(0.2, 0.05, "LEAK")), point("q", 0.7, 8, leak(0.1, 0.01))],
            "epsilon 2: a by server gains at least +0.150; epsilon 8: a by server gains at least",
        ),
        ([point("p", 0.7, 64)], "no setting promises an epsilon of at most 8"),
        ([point("p", 0.29, 8, seeds=1)], "0.300 by training alone (difference -0.010)"),
    ],
)
def test_choose_settings_all_ruled_out_concludes_with_the_reason(
    points: list[CurvePoint], words: str
) -> None:
    choice = chosen(*points)
    assert choice.point is None
    assert choice.concluded
    assert choice.words.startswith("no setting is recommended: ")
    assert words in choice.words
    assert not choice.missing


def test_choose_setting_that_more_seeds_could_show_does_not_conclude() -> None:
    wide = point("p", 0.7, 8).model_copy(update={"accuracies": (0.25, 0.7, 0.31)})
    assert not chosen(wide).concluded
    assert chosen(point("p", 0.7, 8)).concluded


def test_what_is_missing_beside_attacks_is_said_too() -> None:
    good = point("p", 0.7, 8)
    spoilt = {
        "in every seed, on the same data": {"alone_accuracies": (0.3, 0.31)},
        "of one version": {"made_by": ("0.1", "0.2")},
        "an attack: remove `attacks:`": {"leaks": ()},
    }
    for words, update in spoilt.items():
        assert words in "\n".join(chosen(good.model_copy(update=update)).missing)
    broken = leak(None, verdict="INCONCLUSIVE").model_copy(update={"attack": "mechanism_seed"})
    assert "--only promises`" in "\n".join(chosen(point("p", 0.7, 8, broken)).missing)
    absent = point("q", 0.7, 4).model_copy(update={"accuracy": None, "failed": "not run yet"})
    said = chosen(good.model_copy(update={"made_by": ("0.1", "0.2")}), absent).missing
    assert "q at epsilon 4: not run to the end" in said[0]


def test_that_training_alone_is_as_good_is_said_first() -> None:
    leaks = [leak(0.3, verdict="LEAK") for _ in range(4)]
    found = point("p", 0.7, 8, *leaks)
    words = chosen(found.model_copy(update={"alone_accuracies": (0.7, 0.71, 0.72)})).words
    assert "leaves a model worth having" in words
    assert "0.710 by training alone" in words


def test_no_defence_is_never_nearest_where_a_promise_is_within_the_limit() -> None:
    bare = point("none", 0.9, None, leak(0.3, verdict="LEAK"))
    noised = point("noised", 0.6, 8, leak(0.0, verdict="INCONCLUSIVE"), leak(0.0, verdict="LEAK"))
    words = chosen(bare, noised).words
    assert "at epsilon 8 comes nearest" in words
    assert "no epsilon is promised" in chosen(bare).words


def finding(gain: float, reach: float, verdict: Verdict, sound: bool = True) -> Finding:
    return Finding(
        adversary="server",
        attack="a",
        method="m",
        metric="",
        unit="",
        verdict=verdict,
        because="its own reason",
        value=Interval(value=0.5 + gain, low=0.5 + gain - reach, high=0.5 + gain + reach),
        prior=Interval(value=0.5, low=0.5, high=0.5),
        gain=Interval(value=gain, low=gain - reach, high=gain + reach),
        null=Interval(value=0.5, low=0.45, high=0.55),
        null_at_chance=sound,
        positive=Interval(value=0.4, low=0.3, high=0.5),
        floor=0.1,
    )


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([(0.20, 0.05, "LEAK")] * 3, "LEAK"),
        ([(0.03, 0.005, "TRACE")] * 3, "TRACE"),
        ([(0.00, 0.02, "NOT_DETECTED")] * 3, "NOT_DETECTED"),
        ([(0.00, 0.2, "NOT_DETECTED")] * 3, "INCONCLUSIVE"),
        ([(0.00, 0.06, "INCONCLUSIVE")] * 3, "NOT_DETECTED"),
        ([(0.00, 0.02, "NOT_DETECTED")] * 2 + [(0.05, 0.02, "LEAK")], "INCONCLUSIVE"),
        ([(0.1, 0.2, "INCONCLUSIVE")] * 3, "INCONCLUSIVE"),
    ],
)
def test_pooled_verdict_is_that_of_the_pooled_interval(
    found: list[tuple[float, float, str]], wanted: str
) -> None:
    findings = [finding(gain, reach, Verdict(verdict)) for gain, reach, verdict in found]
    verdict, because = pooled_verdict(findings, 0.05)
    assert verdict == wanted
    assert because.startswith("over 3 seeds")


def test_a_seed_whose_null_is_off_chance_spoils_the_point() -> None:
    findings = [finding(0.2, 0.05, Verdict.LEAK)] * 2
    unsound = finding(0.2, 0.05, Verdict.INCONCLUSIVE, sound=False)
    assert pooled_verdict([*findings, unsound], 0.05)[0] is Verdict.INCONCLUSIVE


def test_noise_left_on_in_a_seed_makes_no_pooled_silence() -> None:
    silent = finding(0.0, 0.01, Verdict.NOT_DETECTED)
    left = silent.model_copy(update={"details": {"noise_left": 1.0}})
    assert pooled_verdict([silent] * 3, 0.05)[0] is Verdict.NOT_DETECTED
    assert pooled_verdict([silent, silent, left], 0.05)[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("between", [0.0, 0.02, 0.1])
def test_pooled_interval_covers_the_mean_as_often_as_it_says(seeds: int, between: float) -> None:
    """Targets within seeds, and seeds: the true mean is 0.03 in 2 000 simulated curves."""
    rng, within, covered = np.random.default_rng(0), 0.03, 0
    for _ in range(2000):
        of_seeds = 0.03 + between * rng.standard_normal(seeds)
        seen = of_seeds + within * rng.standard_normal(seeds)
        figures = [Interval(value=g, low=g - 1.96 * within, high=g + 1.96 * within) for g in seen]
        pooled = over_seeds_and_targets(figures)
        covered += pooled.low <= 0.03 <= pooled.high
    assert covered / 2000 > 0.94


def test_the_interval_is_students() -> None:
    found = interval([0.1, 0.2, 0.3])
    assert found.value == pytest.approx(0.2)
    assert found.high - found.value == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert interval([0.4]) == Interval(value=0.4, low=0.4, high=0.4)
