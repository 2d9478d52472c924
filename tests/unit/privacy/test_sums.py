"""What leaves where sums are masked and carry no noise, from declarations and the plan."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import Disclosure, PlannedRelease
from securefg.privacy.sums import ExactSums, with_census
from securefg.protocol.meanings import Holdings, Other, Predictions, Size
from securefg.protocol.messages import Message, private
from securefg.settings.privacy import PrivacySettings

NOISE = {"mechanism": "distributed_discrete", "noise_multiplier": 1.0}


class Update(Message, kind="test_sums.Update"):
    weights: Tensor = private("sum", "model", means=Other(), weight="size")
    size: Tensor | None = private("sum", "number of nodes", means=Size())


class Rows(Message, kind="test_sums.Rows"):
    rows: Tensor = private(
        "sum", "classes", means=Predictions("nodes"), rows="node", holders="holds", adds_up=True
    )
    holds: Tensor | None = private("sum", "1 if held", means=Holdings(), rows="node")


class Fixed(Message, kind="test_sums.Fixed"):
    weights: Tensor = private("sum", "model", means=Other())
    size: Tensor = private("sum", "number of nodes", means=Size())


WEIGHTS = PlannedRelease(Update, "weights", 5, 100, relative_to="start")
SIZE = PlannedRelease(Update, "size", 5, bound=200)
ROWS = PlannedRelease(Rows, "rows", 5, 40, 20, bound=1.0)
HOLDS = PlannedRelease(Rows, "holds", 5, 20, 20, bound=1.0)


def plan(*releases: PlannedRelease, **privacy: Any) -> Policy:
    tree = {"secure_aggregation": {}, **privacy}
    return make_policy(PrivacySettings.model_validate(tree), with_census(releases), 10)


def names(releases: list[PlannedRelease], *, bare: bool) -> list[str]:
    return [release.name for release in releases if release.leaves(bare=bare)]


def test_constant_leaves_in_the_census_or_in_every_reply() -> None:
    planned = with_census([WEIGHTS, SIZE])
    assert names(planned, bare=False) == ["Update.weights", "Update.size"]
    assert names(planned, bare=True) == ["Update.weights", "UpdateCensus.size"]
    assert planned[-1].most_rounds == 1


def test_holders_are_counted_for_rows_that_are_sent_without_them() -> None:
    planned = with_census([ROWS])
    assert names(planned, bare=False) == ["Rows.rows"]
    assert names(planned, bare=True) == ["Rows.rows", "RowsCensus.holds"]
    counted = planned[-1]
    assert (counted.dim, counted.num_rows, counted.bound) == (20, 20, 1.0)
    assert names(with_census([ROWS, HOLDS]), bare=True) == ["Rows.rows", "RowsCensus.holds"]


def test_constant_that_discloses_has_no_census() -> None:
    shown = Disclosure("method.key: found this; expected that", "here", "It shows", "Do not")
    refused = PlannedRelease(Update, "size", 5, discloses=shown)
    assert names(with_census([WEIGHTS, refused]), bare=True) == ["Update.weights", "Update.size"]
    with pytest.raises(ConfigError, match=r"method\.key: found this; expected that under masks"):
        plan(WEIGHTS, refused)


def test_exact_sums_leave_out_what_the_census_counts() -> None:
    exact = plan(WEIGHTS, SIZE).exact
    assert exact.constants(Update) == ("size",)
    assert exact.relative_to == {"Update.weights": "start"}
    assert not exact.limits_rows(Update)


def test_exact_rows_are_shortened_limited_and_of_all_clients() -> None:
    policy = plan(ROWS)
    assert policy.exact.shortened == {"Rows.rows"}
    assert policy.exact.limits_rows(Rows)
    assert policy.least_survivors == {"test_sums.Rows": 10, "test_sums.RowsCensus": 10}


def test_unweighted_models_are_sent_whole_under_masks() -> None:
    assert plan(WEIGHTS).exact == ExactSums()


@pytest.mark.parametrize("privacy", [NOISE, {"secure_aggregation": None}], ids=["noise", "plain"])
def test_sums_with_noise_or_without_masks_leave_nothing_out(privacy: dict[str, Any]) -> None:
    assert plan(ROWS, **privacy).exact == ExactSums()


def test_constant_that_every_reply_must_have_is_refused_under_masks() -> None:
    sent = [PlannedRelease(Fixed, "weights", 5, 100), PlannedRelease(Fixed, "size", 5, bound=9)]
    with pytest.raises(ConfigError, match=r"test_sums.Fixed.size: found a constant that every"):
        plan(*sent)
    assert plan(*sent, secure_aggregation=None).exact == ExactSums()
