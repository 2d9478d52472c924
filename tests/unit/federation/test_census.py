"""Replies leave without their constants, and servers read the same sums and means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from securefg.federation.census import (
    count_replies,
    with_constants,
    with_summable_rows,
    without_constants,
)
from securefg.federation.roles import Replies
from securefg.foundation.errors import PrivacyError
from securefg.privacy.sums import ExactSums
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Holdings, NodeRows, Predictions, Size, Weights
from securefg.protocol.messages import Message, census_of, private, public, summable_rows


class Ask(Message, kind="test_census_of.Ask"):
    weights: Tensor = public("model", means=Weights("network", change=False))
    allowed: Tensor | None = summable_rows()


class Sent(Message, kind="test_census_of.Sent"):
    weights: Tensor = private("sum", "model", means=Weights("network"), weight="size")
    size: Tensor | None = private("sum", "number of nodes", means=Size())
    classes: Tensor | None = private(
        "sum", "classes", means=Predictions("nodes"), rows="node", holders="holds", adds_up=True
    )
    latent: Tensor | None = private(
        "sum", "rows", means=NodeRows("hidden", "nodes", "network"), rows="node", holders="holds"
    )
    holds: Tensor | None = private("sum", "1 if held", means=Holdings(), rows="node")


BY_SIZE = ExactSums({Sent.kind: ("size",)}, {"Sent.weights": "weights"})
BY_ROWS = ExactSums({Sent.kind: ("holds",)}, {}, frozenset({"Sent.classes"}))
START = torch.tensor([1.0, 2.0, 3.0])
SIZES = torch.tensor([10.0, 30.0, 60.0])
TRAINED = torch.tensor([[1.5, 2.0, 1.0], [0.0, 1.0, 3.0], [2.0, 2.5, 3.5]])
HOLDS = torch.tensor([[1.0, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0]])[..., None]
CLASSES = torch.tensor([0.2, 0.5, 0.3]) * HOLDS
NOTHING: dict[str, Any] = dict.fromkeys(Sent.declarations)


def weighted() -> Sent:
    return Sent(**{**NOTHING, "weights": TRAINED, "size": SIZES})


def by_rows() -> Sent:
    rows = {"classes": CLASSES, "latent": 7 * HOLDS, "holds": HOLDS}
    return Sent(**{**NOTHING, "weights": TRAINED, **rows})


def opened(sent: Sent, present: list[int]) -> Replies[Sent]:
    """What secure aggregation gives: sums over those present, and no single value."""
    values = {n: v for n, v in sent.values().items() if isinstance(v, Tensor)}
    sums = {name: value[present].sum(0) for name, value in values.items()}
    return Replies(sent, Clients.of(present), (), sums)


def test_weighted_change_of_all_clients_gives_the_weighted_mean() -> None:
    request = Ask(weights=START, allowed=None)
    sent = without_constants(BY_SIZE, weighted(), request)
    assert sent.size is None
    assert torch.equal(sent.weights, SIZES[:, None] * (TRAINED - START))
    replies = opened(sent, [0, 1, 2])
    found = with_constants(BY_SIZE, replies, Sent, request, {"size": SIZES.sum()})
    wanted = Replies(weighted(), Clients.of([0, 1, 2]), ()).mean("weights")
    assert torch.allclose(found.mean("weights"), wanted)
    assert found.sum("size") == 100


def test_client_that_is_away_counts_as_unchanged() -> None:
    request = Ask(weights=START, allowed=None)
    sent = without_constants(BY_SIZE, weighted(), request)
    census = {"size": SIZES.sum()}
    found = with_constants(BY_SIZE, opened(sent, [0, 1]), Sent, request, census)
    still = torch.stack([TRAINED[0], TRAINED[1], START])
    assert torch.allclose(found.mean("weights"), (SIZES[:, None] * still).sum(0) / 100)


def test_change_that_a_host_sends_itself_is_only_weighted() -> None:
    exact = replace(BY_SIZE, relative_to={})
    request = Ask(weights=START, allowed=None)
    sent = without_constants(exact, weighted(), request)
    assert torch.equal(sent.weights, SIZES[:, None] * TRAINED)
    found = with_constants(exact, opened(sent, [0, 1, 2]), Sent, request, {"size": SIZES.sum()})
    assert torch.allclose(found.mean("weights"), sent.weights.sum(0) / 100)


def test_rows_leave_without_last_class_and_rows_of_few_holders() -> None:
    census = {"holds": HOLDS.sum(0)}
    request = with_summable_rows(Ask(weights=START, allowed=None), Sent, census, 2)
    assert request.allowed is not None
    assert request.allowed.tolist() == [True, True, False, False]
    sent = without_constants(BY_ROWS, by_rows(), request)
    assert sent.holds is None
    assert sent.classes is not None
    assert sent.classes.shape == (3, 4, 2)
    assert not sent.classes[:, 2:].any()
    assert sent.latent is not None
    assert not sent.latent[:, 2:].any()
    assert sent.latent[:, :2].any()


def test_rows_are_restored_from_the_census() -> None:
    census = {"holds": HOLDS.sum(0)}
    request = with_summable_rows(Ask(weights=START, allowed=None), Sent, census, 2)
    replies = opened(without_constants(BY_ROWS, by_rows(), request), [0, 1, 2])
    restored_reply = with_constants(BY_ROWS, replies, Sent, request, census)
    wanted = CLASSES.sum(0)
    wanted[2:] = 0
    assert torch.allclose(restored_reply.sum("classes"), wanted)
    assert torch.allclose(restored_reply.mean("classes"), wanted / 3)
    assert restored_reply.sum("holds").flatten().tolist() == [2, 3, 0, 0]


def test_rows_without_a_count_of_holders_leave_no_client() -> None:
    with pytest.raises(PrivacyError, match="without a count of holders"):
        without_constants(BY_ROWS, by_rows(), Ask(weights=START, allowed=None))


def test_request_that_names_rows_already_keeps_them() -> None:
    lie = Ask(weights=START, allowed=torch.ones(4, dtype=torch.bool))
    assert with_summable_rows(lie, Sent, {"holds": HOLDS.sum(0)}, 2) is lie


def test_reply_of_a_run_without_exact_sums_leaves_as_it_is() -> None:
    sent = weighted()
    assert without_constants(ExactSums(), sent, Ask(weights=START, allowed=None)) is sent


def test_counted_sizes_and_holders_are_whole_numbers() -> None:
    census = census_of(Sent)
    assert census is not None
    reply = census.reply(size=torch.zeros(3), holds=None)
    replies = Replies(reply, Clients.of([0, 1, 2]), (), {"size": torch.tensor(99.9996)})
    assert count_replies(replies) == {"size": torch.tensor(100.0)}
