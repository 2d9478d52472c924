"""The verdict rules, cell by cell: silence counts only where the attack is shown to speak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attacks.questions import Question
from audits.findings.record import Verdict
from audits.games.base import BinaryGame, Game, OutcomeGame
from audits.verdicts import SMALLEST, Evidence, judge_gain, smallest_gain
from securefg.foundation.interval import Interval

ALIKE = np.zeros(40)
LEAK, SILENT, UNKNOWN = Verdict.LEAK, Verdict.NOT_DETECTED, Verdict.INCONCLUSIVE
TRACE = Verdict.TRACE
FLOOR = 0.1


def interval(value: float, low: float, high: float) -> Interval:
    return Interval(value=value, low=low, high=high)


GAIN = interval(0.3, 0.2, 0.4)
NOTHING = interval(0.0, -0.04, 0.04)
WIDE = interval(0.0, -0.1, 0.1)
WORKS = interval(0.4, 0.3, 0.5)
WEAK = interval(0.09, 0.01, 0.2)
UNSURE = interval(0.4, 0.0, 0.8)


def evidence(
    gain: Interval, *, null: bool = True, control: Interval | None = None, own: bool = False
) -> Evidence:
    return Evidence(interval(0.7, 0.6, 0.8), gain, null, control, own, FLOOR, smallest=0.05)


@pytest.mark.parametrize("gain", [GAIN, NOTHING, WIDE])
@pytest.mark.parametrize("control", [WORKS, WEAK, UNSURE, None])
@pytest.mark.parametrize("own", [True, False])
def test_a_null_off_chance_is_never_a_verdict(
    gain: Interval, control: Interval | None, own: bool
) -> None:
    verdict, because = judge_gain(evidence(gain, null=False, control=control, own=own))
    assert verdict is UNKNOWN
    assert "off chance" in because


@pytest.mark.parametrize("control", [WORKS, WEAK, UNSURE, None])
@pytest.mark.parametrize("own", [True, False])
def test_a_gain_above_zero_is_a_leak_whatever_the_control(
    control: Interval | None, own: bool
) -> None:
    verdict, because = judge_gain(evidence(GAIN, control=control, own=own))
    assert verdict is LEAK
    assert because == "0.700, +0.300 over the prior (+0.200 to +0.400)"


@pytest.mark.parametrize(
    ("gain", "control", "own", "wanted", "words"),
    [
        (NOTHING, None, False, UNKNOWN, "no positive control"),
        (NOTHING, None, True, UNKNOWN, "nothing defends this run"),
        (NOTHING, WORKS, True, UNKNOWN, "nothing defends this run"),
        (NOTHING, WEAK, False, UNKNOWN, "too little to show that it works"),
        (NOTHING, UNSURE, False, UNKNOWN, "too little to show that it works"),
        (WIDE, WORKS, False, UNKNOWN, "a gain of up to +0.100 could hide here"),
        (NOTHING, WORKS, False, SILENT, "with the defence off it gains +0.400"),
    ],
)
def test_silence_counts_only_where_the_attack_is_known_to_speak(
    gain: Interval, control: Interval | None, own: bool, wanted: Verdict, words: str
) -> None:
    verdict, because = judge_gain(evidence(gain, control=control, own=own))
    assert verdict is wanted
    assert words in because


@pytest.mark.parametrize("control", [WORKS, WEAK, UNSURE, None])
@pytest.mark.parametrize("own", [True, False])
def test_noise_that_anybody_can_draw_again_and_that_is_still_on_makes_no_silence(
    control: Interval | None, own: bool
) -> None:
    left = replace(evidence(NOTHING, control=control, own=own), noise_left=("m.Update.weights",))
    verdict, because = judge_gain(left)
    assert verdict is UNKNOWN
    assert "m.Update.weights can be drawn again" in because
    assert judge_gain(replace(left, gain=GAIN))[0] is LEAK


def test_every_edge_is_on_the_side_of_not_knowing() -> None:
    """A lower end of zero is no leak, a control at zero no power, the smallest gain not silence."""
    at_zero = interval(0.02, 0.0, 0.04)
    assert judge_gain(evidence(at_zero, control=WORKS))[0] is SILENT
    assert judge_gain(evidence(interval(0.05, 1e-9, 0.1)))[0] is LEAK
    assert judge_gain(evidence(interval(0.05 - 1e-9, 1e-9, 0.1)))[0] is TRACE
    at_floor, under = interval(FLOOR, 0.01, 0.2), interval(FLOOR - 1e-9, 0.01, 0.2)
    assert judge_gain(evidence(NOTHING, control=at_floor))[0] is SILENT
    assert judge_gain(evidence(NOTHING, control=under))[0] is UNKNOWN
    at_smallest = interval(0.0, -0.05, 0.05)
    verdict, because = judge_gain(evidence(at_smallest, control=WORKS))
    assert verdict is UNKNOWN
    assert "audit.leak_threshold" in because


def test_the_smallest_gain_that_matters_is_a_setting() -> None:
    found = evidence(WIDE, control=WORKS)
    wider = Evidence(found.value, found.gain, True, WORKS, False, FLOOR, smallest=0.11)
    assert judge_gain(found)[0] is UNKNOWN
    assert judge_gain(wider)[0] is SILENT


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("AUC over training and test nodes", 0.05),
        ("share of labels found", 0.05),
        ("cosine with the features", 0.02),
        ("made", 0.02),
    ],
)
def test_smallest_gain_not_set_is_that_of_the_metric(metric: str, wanted: float) -> None:
    assert smallest_gain(metric, None) == wanted
    assert smallest_gain(metric, 0.3) == 0.3
    assert min(SMALLEST.values()) > 0


@pytest.mark.parametrize("control", [WORKS, WEAK, UNSURE, None])
def test_judge_gain_below_the_smallest_is_a_trace(control: Interval | None) -> None:
    verdict, because = judge_gain(evidence(interval(0.0003, 0.0001, 0.0005), control=control))
    assert verdict is TRACE
    assert "+0.0003 over the prior" in because
    assert "audit.leak_threshold" in because


def test_judge_no_setting_makes_a_large_gain_a_trace() -> None:
    found = replace(evidence(GAIN), smallest=1.0)
    assert judge_gain(found)[0] is LEAK
    assert judge_gain(replace(found, gain=interval(0.09, 0.08, 0.1)))[0] is TRACE


def test_judge_null_not_computed_keeps_the_leak_and_says_so() -> None:
    failed = replace(evidence(GAIN, control=WORKS), null_failed="ValueError: no rows")
    verdict, because = judge_gain(failed)
    assert verdict is LEAK
    assert "+0.300 over the prior" in because
    assert "the null control was not computed" in because
    assert judge_gain(replace(failed, gain=NOTHING))[0] is UNKNOWN


def test_judge_null_off_chance_still_tells_the_gain() -> None:
    assert "+0.300 over the prior" in judge_gain(evidence(GAIN, null=False))[1]


@pytest.mark.parametrize("high", [-0.01, 0.0, 0.0001, 0.0004])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("control", [WEAK, UNSURE, None, interval(1e-5, 1e-6, 1e-4)])
def test_judge_silence_never_says_that_a_gain_of_zero_could_hide(
    high: float, own: bool, control: Interval | None
) -> None:
    verdict, because = judge_gain(evidence(interval(-0.02, -0.03, high), control=control, own=own))
    assert verdict is UNKNOWN
    assert "0.000 could hide" not in because
    assert "the attack found nothing, and the test is too weak to be sure" in because


def test_judge_exposed_few_are_no_silence_and_no_trace() -> None:
    silent = replace(evidence(NOTHING, control=WORKS), tail=0.001)
    verdict, because = judge_gain(silent)
    assert verdict is UNKNOWN
    assert "the ten most exposed targets stand out" in because
    assert judge_gain(replace(silent, tail=0.01))[0] is SILENT
    assert judge_gain(replace(silent, gain=interval(0.005, 0.001, 0.009)))[0] is LEAK


def test_no_attack_earns_the_verdict_that_is_for_promises() -> None:
    verdicts_reached = {
        judge_gain(evidence(gain, null=null, control=control, own=own))[0]
        for gain in (GAIN, NOTHING, WIDE)
        for null in (True, False)
        for control in (WORKS, WEAK, UNSURE, None)
        for own in (True, False)
    }
    assert verdicts_reached == {LEAK, SILENT, UNKNOWN}


@pytest.mark.parametrize(
    "game",
    [
        BinaryGame(Question(ids=np.arange(40)), "made", "node", np.arange(40) % 2),
        BinaryGame(Question(ids=np.arange(40)), "made", "node", np.arange(40) % 2, ALIKE),
        BinaryGame(
            Question(ids=np.arange(80).reshape(40, 2)), "made", "edge", np.arange(40) % 2, ALIKE
        ),
        OutcomeGame(
            Question(ids=np.arange(40)), "made", "node", np.arange(40) % 2, np.equal, ALIKE
        ),
    ],
    ids=["no prior", "a prior", "pairs", "outcomes"],
)
def test_a_guess_that_is_the_same_for_all_is_no_silence(game: Game) -> None:
    """An attack that gave up says nothing of anybody, with an interval of no width around 0."""
    verdict, because = judge_gain(evidence(game.gain(ALIKE), control=WORKS))
    assert verdict is UNKNOWN
    assert "the same with every target" in because or "could hide" in because


def test_as_much_as_without_the_defence_could_hide() -> None:
    """An attack that gains 0.02 at best says nothing by an interval that reaches 0.04."""
    little = interval(0.02, 0.01, 0.03)
    gain_evidence = replace(evidence(NOTHING, control=little), floor=0.0)
    verdict, because = judge_gain(gain_evidence)
    assert verdict is UNKNOWN
    assert "as much as without the defence" in because
    assert judge_gain(replace(gain_evidence, gain=interval(0.0, -0.019, 0.019)))[0] is SILENT


def test_silence_says_what_gain_it_is_about() -> None:
    """Findings of one file may have been judged by different settings."""
    _, because = judge_gain(replace(evidence(WIDE, control=WORKS), smallest=0.3))
    assert because.startswith("no gain of 0.3 or more over the prior")


def test_what_arithmetic_leaves_of_a_prior_is_neither_leak_nor_silence() -> None:
    dust = interval(3e-8, 1e-8, 5e-8)
    verdict, because = judge_gain(evidence(dust, control=WORKS))
    assert verdict is UNKNOWN
    assert "has no spread" in because
    assert judge_gain(evidence(interval(0.5, 0.5, 0.5)))[0] is LEAK
