"""Gradients that are written down are autograd's, to the bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.foundation.streams import torch_stream
from securefg.models.gcn import GcnShape, Operator, SumOf, normalized_adjacency, run_gcn
from securefg.models.sparse import feature_matrix
from securefg.models.training import Labelled, Targets, gcn_gradients, labelled_rows

NODES, FEATURES, CLASSES, HIDDEN = 60, 40, 3, 8
SHAPE = GcnShape(FEATURES, HIDDEN, CLASSES)


def _adjacency(name: str) -> Operator:
    ends = torch.randint(NODES, (2, 90), generator=torch_stream(0, name))
    ends = ends[:, ends[0] != ends[1]]
    keys = torch.unique(ends[0] * NODES + ends[1])  # one way alone: A is not its transpose
    return normalized_adjacency(torch.stack([keys // NODES, keys % NODES]), NODES)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("share", [0.1, 0.9], ids=["sparse", "dense"])
def test_gradients_are_those_of_autograd_to_the_bit(
    share: float, terms: int, dropout: float
) -> None:
    stream = torch_stream(0, "features")
    shown = torch.rand(NODES, FEATURES, generator=stream) < share
    features = feature_matrix(shown * torch.rand(NODES, FEATURES, generator=stream))
    operators = [_adjacency(name) for name in ("own", "pseudo")]
    adjacency = operators[0] if terms == 1 else SumOf(tuple(operators))  # type: ignore[arg-type]
    classes = torch.randint(CLASSES, (NODES,), generator=stream)
    targets = [
        Targets(torch.arange(20), classes[:20]),
        Targets(torch.arange(25, 50), classes[25:50], 0.3),
    ]

    def loss(logits: Tensor) -> Tensor:
        means = [cross_entropy(logits[t.nodes], t.classes) for t in targets]
        return targets[0].factor * means[0] + targets[1].factor * means[1]

    weights = [w.clone().requires_grad_() for w in SHAPE.split(SHAPE.initial(stream))]
    logits = run_gcn(weights, adjacency, features, dropout, torch_stream(1, "dropout"))[1]
    known = torch.autograd.grad(loss(logits), weights)
    labelled = Labelled.of(adjacency, targets, CLASSES)
    written = gcn_gradients(
        weights, adjacency, features, labelled, dropout, torch_stream(1, "dropout")
    )
    assert all(torch.equal(one, other) for one, other in zip(known, written, strict=True))
    assert all(bool(one.any()) for one in written)


def test_slope_by_scores_of_no_nodes_is_empty() -> None:
    none = Targets(torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert none.slope_by_scores(CLASSES).shape == (0, CLASSES)


def test_labelled_rows_of_another_operator_are_made_anew() -> None:
    own_adjacency, other = _adjacency("own"), _adjacency("pseudo")
    targets = [Targets(torch.arange(5), torch.zeros(5, dtype=torch.long))]
    first = labelled_rows(own_adjacency, targets, CLASSES)
    assert labelled_rows(own_adjacency, targets, CLASSES) is first
    assert labelled_rows(other, targets, CLASSES) is not first
    dense = torch.rand(NODES, 2, generator=torch_stream(0, "dense"))
    found = labelled_rows(own_adjacency, targets, CLASSES).rows.product(dense)
    assert torch.equal(found, own_adjacency.product(dense)[:5])
