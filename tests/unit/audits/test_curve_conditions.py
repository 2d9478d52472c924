"""The conditions on a curve's first screen agree with what a recommendation goes by."""

from __future__ import annotations

from typing import Any

import pytest

from audits.curves.cards import Card, make_cards
from audits.curves.conditions import check_conditions, state_of
from audits.curves.marks import Marks
from audits.curves.recommend import choose_point, list_objections
from securefg.foundation.interval import Interval, interval
from securefg.reports.curve_data import Choice, CurveData, CurvePoint, Leak, Limits, Series
from securefg.runs.summary import ClaimedEpsilon

LIMITS = Limits(epsilon=8, leak_gain=0.1)
CLAIM = ClaimedEpsilon(
    epsilon=4.0,
    delta=1e-5,
    private=True,
    because=(),
    relation="removed or added",
    holders=18,
    num_units=600,
)


def leak(value: float, reach: float, **more: Any) -> Leak:
    filled: dict[str, Any] = {
        "attack": "membership_loss",
        "adversary": "outsider",
        "metric": "AUC",
        "unit": "node",
        "verdict": "NOT_DETECTED",
        "because": "why",
        "sound": True,
        "gain": Interval(value=value, low=value - reach, high=value + reach),
    }
    return Leak(**{**filled, **more})


def point(**more: Any) -> CurvePoint:
    reached = (0.7, 0.71, 0.72)
    filled: dict[str, Any] = {
        "key": "p",
        "series": "s",
        "defence": "distributed_discrete",
        "epsilon": 4.0,
        "unit": "client",
        "accuracies": reached,
        "accuracy": interval(reached),
        "no_skill": (0.2,) * 3,
        "alone_accuracies": (0.3, 0.31, 0.29),
        "made_by": ("0.1",),
        "default_leaks": (),
        "leaks": (leak(0.0, 0.02),),
        "claims": {"client": CLAIM, "node": CLAIM.model_copy(update={"epsilon": 768.0})},
    }
    return CurvePoint(**{**filled, **more})


def fewer(seeds: int, **more: Any) -> CurvePoint:
    reached = (0.7, 0.71, 0.72)[:seeds]
    shorter = {"no_skill": (0.2,) * seeds, "alone_accuracies": (0.3, 0.31, 0.29)[:seeds]}
    return point(accuracies=reached, accuracy=interval(reached), **{**shorter, **more})


CASES = {
    "all is met": (point(), LIMITS, "met"),
    "one seed": (fewer(1), LIMITS, "failed"),
    "two seeds": (fewer(2), LIMITS, "failed"),
    "may exceed": (point(leaks=(leak(0.07, 0.1),)), LIMITS, "unknown"),
    "leaks": (point(leaks=(leak(0.2, 0.02, verdict="LEAK"),)), LIMITS, "failed"),
    "leaks in one seed": (point(leaks=(leak(0.0, 0.02, leaking=(1,)),)), LIMITS, "failed"),
    "did not hold": (point(leaks=(leak(0.0, 0.02, sound=False),)), LIMITS, "unknown"),
    "inconclusive": (point(leaks=(leak(0.0, 0.02, verdict="INCONCLUSIVE"),)), LIMITS, "unknown"),
    "one exposed": (point(leaks=(leak(0.0, 0.02, most_exposed=0.4),)), LIMITS, "failed"),
    "no attack": (point(leaks=()), LIMITS, "unknown"),
    "not the default audit": (point(default_leaks=None), LIMITS, "unknown"),
    "default audit leaks": (point(default_leaks=("x leaks",)), LIMITS, "failed"),
    "worse than alone": (point(alone_accuracies=(0.9, 0.9, 0.9)), LIMITS, "failed"),
    "as good as alone": (point(alone_accuracies=(0.6, 0.8, 0.71)), LIMITS, "unknown"),
    "alone not measured": (point(alone_accuracies=()), LIMITS, "unknown"),
    "one class as good": (point(no_skill=(0.9, 0.9, 0.9)), LIMITS, "failed"),
    "two versions": (point(made_by=("1", "2")), LIMITS, "unknown"),
    "no version": (point(made_by=()), LIMITS, "unknown"),
    "broken": (point(violations=("broken",)), LIMITS, "failed"),
    "epsilon too large": (point(epsilon=9.0), LIMITS, "failed"),
    "per node": (point(), Limits(epsilon=8, unit="node"), "failed"),
    "per row": (point(unit="row"), LIMITS, "failed"),
    "no promise": (point(epsilon=None, unit=""), LIMITS, "failed"),
    "came to more": (
        point(claims={"client": CLAIM.model_copy(update={"epsilon": 5.0})}),
        LIMITS,
        "failed",
    ),
    "not private": (
        point(claims={"client": CLAIM.model_copy(update={"private": False})}),
        LIMITS,
        "failed",
    ),
    "score": (point(), Limits(accuracy=0.9), "failed"),
    "score may be less": (point(), Limits(accuracy=0.71), "unknown"),
    "no limits": (point(leaks=(leak(0.2, 0.02, verdict="LEAK"),)), Limits(), "met"),
}


@pytest.mark.parametrize("name", CASES)
def test_conditions_are_met_exactly_where_nothing_is_objected(name: str) -> None:
    found, limits, state = CASES[name]
    conditions = check_conditions(found, limits)
    assert state_of(conditions) == state, conditions
    assert (state == "met") is not bool(list_objections(found, limits))
    assert all(one.found for one in conditions)


def card_of(curve_point: CurvePoint, choice: Choice | None = None) -> Card:
    series = Series(name="s", method="m", dataset="d", clients=3)
    data = CurveData(
        schema=2,
        name="made",
        seeds=3,
        limits=LIMITS,
        series=(series,),
        points=(curve_point,),
        choices=(choice or choose_point(series, [curve_point], LIMITS, "securefg curve own.yaml"),),
        settings="",
        versions={},
    )
    return make_cards(data, Marks(data))[0]


def test_card_of_a_setting_that_fits_names_it() -> None:
    card = card_of(point())
    assert (card.tone, card.badge) == ("met", "THIS ONE")
    assert card.head.endswith("71.0% accuracy")


def test_card_tells_the_epsilon_of_a_person_beside_the_clients() -> None:
    assert card_of(point()).unit == (
        "Epsilon 4 covers one client's whole participation. The same noise gives 768 per node."
    )


def test_card_without_enough_seeds_says_none_yet_and_the_command() -> None:
    card = card_of(fewer(1))
    assert card.badge == "NONE YET"
    assert any("--seeds 3" in text for text in card.missing)
    assert ("failed", "1 of 3") in [(one.state, one.found) for one in card.conditions]


def test_card_against_every_setting_says_none_with_the_reason() -> None:
    card = card_of(point(epsilon=None, unit=""))
    assert card.badge == "NONE"
    assert card.words.startswith("No epsilon is promised")


def test_choice_that_fails_a_condition_does_not_stand() -> None:
    stored = Choice(series="s", point="p", words="take it", concluded=True)
    card = card_of(point(leaks=(leak(0.2, 0.02, verdict="LEAK"),)), choice=stored)
    assert card.tone == "unmet"


def test_price_of_choosing_is_told_with_the_sum() -> None:
    doubts = " ".join(card_of(point()).doubts)
    assert "Choosing a setting by its score on private data is itself a release" in doubts
