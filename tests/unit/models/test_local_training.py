"""Local training lowers its loss, depends on its stream alone, and can be taken up again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.data.graph import undirected
from securefg.models.gcn import GcnShape, normalized_adjacency, run_gcn
from securefg.models.sparse import FeatureMatrix, SparseMatrix, feature_matrix
from securefg.models.training import GcnTrainer, Targets

SHAPE = GcnShape(num_features=20, hidden=8, num_classes=3)
NUM_NODES = 30
CLASSES = torch.arange(NUM_NODES) % 3
ALL = Targets(torch.arange(NUM_NODES), CLASSES)


def a_problem() -> tuple[SparseMatrix, FeatureMatrix]:
    """Classes that show in the features, over a random graph."""
    stream = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NUM_NODES, (2, 10), generator=stream)
    features = (torch.rand(NUM_NODES, 20, generator=stream) < 0.1).float()
    features[torch.arange(NUM_NODES), CLASSES] = 1
    return normalized_adjacency(undirected(edges, NUM_NODES), NUM_NODES), feature_matrix(features)


def a_trainer(weight_decay: float = 5e-4) -> GcnTrainer:
    vector = SHAPE.initial(torch.Generator().manual_seed(1))
    return GcnTrainer(SHAPE, vector, lr=0.01, weight_decay=weight_decay)


def train(
    trainer: GcnTrainer,
    epochs: int = 10,
    targets: list[Targets] | None = None,
    dropout: float = 0.5,
    stream: torch.Generator | None = None,
) -> Tensor:
    adjacency, features = a_problem()
    trainer.train(
        epochs,
        adjacency,
        features,
        [ALL] if targets is None else targets,
        dropout,
        stream or torch.Generator().manual_seed(2),
    )
    return trainer.vector()


def loss(trainer: GcnTrainer) -> float:
    adjacency, features = a_problem()
    _, logits = run_gcn(trainer.weights, adjacency, features)
    return float(cross_entropy(logits, CLASSES).detach())


def test_training_lowers_the_loss() -> None:
    trainer = a_trainer()
    before = loss(trainer)
    train(trainer, epochs=200)
    assert loss(trainer) < 0.7 * before


def test_the_same_stream_gives_the_same_bits() -> None:
    assert torch.equal(train(a_trainer()), train(a_trainer()))


def test_another_stream_gives_other_weights() -> None:
    other = torch.Generator().manual_seed(3)
    assert not torch.equal(train(a_trainer()), train(a_trainer(), stream=other))


def test_a_restored_trainer_goes_on_bit_for_bit() -> None:
    whole, stream = a_trainer(), torch.Generator().manual_seed(2)
    train(whole, 12, stream=stream)
    broken, stream = a_trainer(), torch.Generator().manual_seed(2)
    train(broken, 5, stream=stream)
    stored = {name: value.clone() for name, value in broken.state().items()}
    fresh = GcnTrainer(SHAPE, torch.zeros(SHAPE.num_parameters), lr=0.01, weight_decay=5e-4)
    fresh.restore(stored)
    assert torch.equal(train(fresh, 7, stream=stream), whole.vector())


def test_a_new_optimiser_does_not_go_on_bit_for_bit() -> None:
    """The weights alone are not the state: the moments matter."""
    whole = train(a_trainer(), 12, dropout=0.0)
    half = train(a_trainer(), 6, dropout=0.0)
    again = GcnTrainer(SHAPE, half, lr=0.01, weight_decay=5e-4)
    assert not torch.equal(train(again, 6, dropout=0.0), whole)


def test_the_loss_is_the_sum_of_the_means_times_their_factors() -> None:
    """One step of Adam on the loss written out, dropout off."""
    few = Targets(torch.tensor([0, 4, 7]), CLASSES[[0, 4, 7]])
    more = Targets(torch.tensor([1, 2]), torch.tensor([2, 0]), factor=0.25)
    few_trainer, wanted = a_trainer(weight_decay=0.0), a_trainer(weight_decay=0.0)
    train(few_trainer, 1, [few, more], dropout=0.0)
    adjacency, features = a_problem()
    _, logits = run_gcn(wanted.weights, adjacency, features)
    terms = [cross_entropy(logits[t.nodes], t.classes) for t in (few, more)]
    gradients = torch.autograd.grad(terms[0] + 0.25 * terms[1], wanted.weights)
    for before, after, gradient in zip(wanted.weights, few_trainer.weights, gradients, strict=True):
        step = 0.01 * gradient / (gradient.abs() + 1e-8)
        assert torch.allclose(after, before - step, atol=1e-6)


def test_a_set_without_nodes_adds_nothing() -> None:
    none = Targets(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long))
    assert torch.equal(train(a_trainer(), targets=[ALL, none]), train(a_trainer()))


@pytest.mark.parametrize("epochs", [0, 5])
def test_without_targets_or_epochs_the_weights_stay(epochs: int) -> None:
    trainer = a_trainer()
    before = trainer.vector()
    assert torch.equal(train(trainer, epochs, [] if epochs else [ALL]), before)
    assert bool(before.isfinite().all())


def test_decay_acts_on_the_first_matrix_alone() -> None:
    """In one step Adam moves by the sign of the gradient; huge decay turns it to that of w."""
    plain, decayed = a_trainer(0.0), a_trainer(1e6)
    start = [w.detach().clone() for w in plain.weights]
    train(plain, 1)
    train(decayed, 1)
    assert torch.equal(plain.weights[1], decayed.weights[1])
    assert torch.allclose(decayed.weights[0], start[0] - 0.01 * start[0].sign(), atol=1e-5)


def test_training_leaves_the_given_vector_and_the_handed_out_one_alone() -> None:
    given = SHAPE.initial(torch.Generator().manual_seed(1))
    before = given.clone()
    trainer = GcnTrainer(SHAPE, given, lr=0.01, weight_decay=0.0)
    handed = trainer.vector()
    train(trainer)
    assert torch.equal(given, before)
    assert torch.equal(handed, before)
