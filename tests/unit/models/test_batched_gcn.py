"""Networks trained as one tensor learn what each would learn alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from securefg.foundation.streams import torch_stream
from securefg.models.batched_gcn import BatchedGcns, Field, Pass
from securefg.models.gcn import GcnShape, normalized_adjacency
from securefg.models.sparse import feature_matrix
from securefg.models.training import GcnTrainer, Targets

NODES, FEATURES, CLASSES, HIDDEN, COUNT = 40, 30, 3, 4, 5
SHAPE = GcnShape(FEATURES, HIDDEN, CLASSES)


@pytest.fixture(params=[0.1, 0.9], ids=["sparse", "dense"])
def features(request: pytest.FixtureRequest) -> Tensor:
    stream = torch_stream(0, "features")
    shown = torch.rand(NODES, FEATURES, generator=stream) < request.param
    return shown * torch.rand(NODES, FEATURES, generator=stream)


def _adjacency():
    ends = torch.randint(NODES, (2, 60), generator=torch_stream(0, "edges"))
    ends = ends[:, ends[0] != ends[1]]
    keys = torch.unique(torch.cat([ends[0] * NODES + ends[1], ends[1] * NODES + ends[0]]))
    return normalized_adjacency(torch.stack([keys // NODES, keys % NODES]), NODES)


def _members() -> Tensor:
    member = torch.zeros(COUNT, NODES, dtype=torch.bool)
    for network in range(COUNT):
        chosen = torch.randperm(12, generator=torch_stream(0, "member", network))[: 4 + network]
        member[network, chosen] = True
    return member


CLASSES_OF = torch.randint(CLASSES, (NODES,), generator=torch_stream(0, "classes"))
VECTORS = torch.stack([SHAPE.initial(torch_stream(0, "weights", n)) for n in range(COUNT)])


def _trained(features: Tensor, dropout: float = 0.0, vectors: Tensor = VECTORS) -> BatchedGcns:
    networks = BatchedGcns(SHAPE, vectors, 0.02, 5e-3)
    stream = torch_stream(0, "dropout")
    matrix = feature_matrix(features)
    networks.train(20, _adjacency(), matrix, CLASSES_OF, _members(), dropout, stream)
    return networks


def test_networks_of_a_batch_learn_what_each_learns_alone(features: Tensor) -> None:
    together = _trained(features).vectors()
    for network, member in enumerate(_members()):
        alone = GcnTrainer(SHAPE, VECTORS[network], 0.02, 5e-3)
        own = Targets(member.nonzero().flatten(), CLASSES_OF[member])
        stream = torch_stream(0, "dropout")
        alone.train(20, _adjacency(), feature_matrix(features), [own], 0.0, stream)
        torch.testing.assert_close(together[network], alone.vector(), rtol=1e-3, atol=2e-5)
    assert (together - VECTORS).abs().max() > 0.1


def test_rows_left_out_change_no_logit(features: Tensor) -> None:
    nodes, adjacency = torch.tensor([7, 2, 30]), _adjacency()
    matrix = feature_matrix(features)
    small = Field.of(nodes, adjacency, matrix)
    assert small.first.shape[0] < NODES
    weights = torch.cat([SHAPE.split(v)[0] for v in VECTORS], 1)
    last = torch.stack([SHAPE.split(v)[1] for v in VECTORS])
    whole = Pass(Field.whole(adjacency, matrix), weights, last).forward(0.0, None)
    part = Pass(small, weights, last).forward(0.0, None)
    torch.testing.assert_close(part, whole[:, nodes])


def test_every_network_has_its_own_dropout(features: Tensor) -> None:
    alike = VECTORS[:1].expand(COUNT, -1)
    member = _members()[:1].expand(COUNT, -1)
    networks = BatchedGcns(SHAPE, alike, 0.02, 0.0)
    stream, matrix = torch_stream(0, "dropout"), feature_matrix(features)
    networks.train(3, _adjacency(), matrix, CLASSES_OF, member, 0.5, stream)
    found = networks.vectors()
    assert len(torch.unique(found, dim=0)) == COUNT


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.8])
def test_dropout_keeps_its_share_and_the_mean(features: Tensor, dropout: float) -> None:
    field = Field.whole(_adjacency(), feature_matrix(features))
    weights = torch.cat([SHAPE.split(v)[0] for v in VECTORS], 1)
    run, stream = Pass(field, weights, torch.zeros(COUNT, HIDDEN, CLASSES)), torch_stream(0, "kept")
    kept = torch.stack([run._draw_kept(dropout, stream).clone() for _ in range(200)])
    assert abs(float(kept.mean()) - (1 - dropout)) < 4 * (0.25 / kept.numel()) ** 0.5
    places = kept.mean(0)
    assert abs(float(places.std()) - (dropout * (1 - dropout) / 200) ** 0.5) < 0.005
    run.forward(dropout, stream)
    assert run._scale == 1 / (1 - dropout)


def test_the_gradient_under_dropout_is_that_of_the_masked_network(features: Tensor) -> None:
    """Against autograd, with the very masks of the pass."""
    field = Field.whole(_adjacency(), feature_matrix(features))
    first = torch.cat([SHAPE.split(v)[0] for v in VECTORS], 1).requires_grad_()
    last = torch.stack([SHAPE.split(v)[1] for v in VECTORS]).requires_grad_()
    run = Pass(field, first.detach(), last.detach())
    logits = run.forward(0.4, torch_stream(0, "dropout"))
    mask = (run._active > 0).float() / 0.6
    hidden = (field.first @ (run._features.matrix.to_dense() @ first)) * mask
    near = (field.second @ hidden).view(-1, COUNT, HIDDEN).transpose(0, 1)
    wanted = torch.bmm(near, last)
    torch.testing.assert_close(logits, wanted.detach())
    weights = torch.rand(wanted.shape, generator=torch_stream(0, "loss"))
    by_hand = run.backward(weights)
    by_autograd = torch.autograd.grad((wanted * weights).sum(), (first, last))
    for ours, theirs in zip(by_hand, by_autograd, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
