"""The baselines' networks: the formulas are those of PyTorch Geometric, the training is exact."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, elu

from securefg.data.drawn_graphs import draw_csbm
from securefg.data.graph import Graph
from securefg.foundation.streams import torch_stream
from securefg.methods.alone.settings import Optimizer
from securefg.models.classifiers import Appnp, Gcn, GraphSage, Mlp, mlp_shapes
from securefg.models.gat import Gat
from securefg.models.gcn import GcnShape, gcn_inputs
from securefg.models.network import Network, draw_glorot, num_parameters, split_vector
from securefg.models.optimizers import Sgd
from securefg.models.training import GcnTrainer, Targets, Trainer
from securefg.settings.data import CsbmSettings

CPU = torch.device("cpu")
NAMES = ["gcn", "gat", "gat-linear", "graphsage", "appnp", "mlp"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return draw_csbm(CsbmSettings.model_validate({"num_nodes": 60, "num_features": 12}), seed=1)


@pytest.fixture(scope="module")
def pyg() -> Any:
    with warnings.catch_warnings():
        # PyTorch Geometric uses torch.jit when it is imported, which PyTorch is about to retire.
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("torch_geometric.nn")


def network(name: str, graph: Graph) -> Network:
    made: dict[str, Network] = {
        "gcn": Gcn(graph, 16, CPU),
        "gat": Gat(graph, 16, 4, False, CPU),
        "gat-linear": Gat(graph, 16, 4, True, CPU),
        "graphsage": GraphSage(graph, 16, CPU),
        "appnp": Appnp(graph, 16, 0.1, 10, CPU),
        "mlp": Mlp(graph, 16, CPU),
    }
    return made[name]


def weights(net: Network) -> tuple[Tensor, ...]:
    return split_vector(draw_glorot(net.shapes, torch_stream(3, "weights")), net.shapes)


def trainer(
    net: Network, optimizer: Optimizer = "sgd", weight_decay: float = 0.0, lr: float = 0.1
) -> Trainer:
    vector = draw_glorot(net.shapes, torch_stream(3, "weights"))
    return Trainer(net, vector, optimizer, lr, weight_decay)


def train(made: Trainer, graph: Graph, updates: int, dropout: float = 0.0, name: int = 0) -> None:
    nodes = graph.split.train.nonzero().flatten()
    made.train(updates, nodes, graph.labels[nodes], dropout, torch_stream(0, "dropout", name))


def test_gat_is_two_attention_layers_of_pyg(graph: Graph, pyg: Any) -> None:
    net = network("gat", graph)
    first, target0, source0, second, target1, source1 = weights(net)
    layers = (pyg.GATConv(12, 4, heads=4, bias=False), pyg.GATConv(16, 2, heads=1, bias=False))
    for layer, w, target, source in (
        (layers[0], first, target0, source0),
        (layers[1], second, target1, source1),
    ):
        layer.lin.weight.data = w.T
        layer.att_dst.data, layer.att_src.data = target[None], source[None]
    hidden = elu(layers[0](graph.features, graph.edge_index))
    wanted = layers[1](hidden, graph.edge_index)
    assert torch.allclose(net.logits(weights(net)), wanted, atol=1e-5)


def test_a_linear_readout_follows_the_second_attention_layer(graph: Graph) -> None:
    net = network("gat-linear", graph)
    assert net.shapes[3:] == ((16, 16), (1, 16), (1, 16), (16, 2))
    *layers, readout = weights(net)
    doubled = net.logits([*layers, 2 * readout])
    assert torch.allclose(doubled, 2 * net.logits(weights(net)), atol=1e-6)


def test_graphsage_is_two_mean_layers_of_pyg(graph: Graph, pyg: Any) -> None:
    net = network("graphsage", graph)
    own0, others0, own1, others1 = weights(net)
    layers = (pyg.SAGEConv(12, 16, bias=False), pyg.SAGEConv(16, 2, bias=False))
    for layer, own, others in ((layers[0], own0, others0), (layers[1], own1, others1)):
        layer.lin_r.weight.data, layer.lin_l.weight.data = own.T, others.T
    hidden = torch.relu(layers[0](graph.features, graph.edge_index))
    wanted = layers[1](hidden, graph.edge_index)
    assert torch.allclose(net.logits(weights(net)), wanted, atol=1e-5)


def test_appnp_is_the_perceptron_propagated_by_pyg(graph: Graph, pyg: Any) -> None:
    scores = network("mlp", graph).logits(weights(network("mlp", graph)))
    wanted = pyg.APPNP(K=10, alpha=0.1)(scores, graph.edge_index)
    net = network("appnp", graph)
    assert torch.allclose(net.logits(weights(net)), wanted, atol=1e-5)


def test_the_gcn_trains_to_the_bits_of_fedgls_own_trainer(graph: Graph) -> None:
    shape, adjacency, features = gcn_inputs(graph, 16, CPU)
    start = shape.initial(torch_stream(3, "weights"))
    old = GcnTrainer(shape, start, 0.1, 5e-4)
    nodes = graph.split.train.nonzero().flatten()
    targets = [Targets(nodes, graph.labels[nodes])]
    old.train(7, adjacency, features, targets, 0.5, torch_stream(0, "dropout", 0))
    new = trainer(network("gcn", graph), "adam", 5e-4)
    train(new, graph, 7, dropout=0.5)
    assert torch.equal(old.vector(), new.vector())
    assert not torch.equal(new.vector(), start)


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_the_loss_and_every_matrix_takes_part(name: str, graph: Graph) -> None:
    net = network(name, graph)
    made = trainer(net, lr=0.5)
    train(made, graph, 60)
    mask = graph.split.train
    with torch.no_grad():
        losses = [
            float(cross_entropy(net.logits(w)[mask], graph.labels[mask]))
            for w in (weights(net), made.weights)
        ]
    assert losses[1] < 0.9 * losses[0]
    moved = [not torch.equal(a, b) for a, b in zip(weights(net), made.weights, strict=True)]
    assert all(moved)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_comes_from_the_named_stream(name: str, graph: Graph) -> None:
    net = network(name, graph)
    first_logits, same, other = (
        net.logits(weights(net), 0.5, torch_stream(0, "dropout", n)) for n in (1, 1, 2)
    )
    assert torch.equal(first_logits, same)
    assert not torch.equal(first_logits, other)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_restored_trainer_goes_on_to_the_same_bits(optimizer: Optimizer, graph: Graph) -> None:
    whole, broken = (trainer(network("gat", graph), optimizer, 1e-3) for _ in range(2))
    for name in range(2):
        train(whole, graph, 5, 0.3, name)
    train(broken, graph, 5, 0.3, 0)
    state = broken.state()
    fresh = trainer(network("gat", graph), optimizer, 1e-3)
    fresh.restore(state)
    train(fresh, graph, 5, 0.3, 1)
    assert torch.equal(whole.vector(), fresh.vector())


def test_without_labelled_nodes_nothing_is_learnt(graph: Graph) -> None:
    made = trainer(network("gcn", graph))
    before, nobody = made.vector(), torch.tensor([], dtype=torch.long)
    made.train(3, nobody, nobody, 0.0, torch_stream(0))
    assert torch.equal(before, made.vector())


def test_sgd_is_pytorchs_with_one_decay_per_parameter() -> None:
    start = [torch.ones(3), torch.full((2,), 2.0)]
    theirs = [w.clone().requires_grad_() for w in start]
    groups = [{"params": [w], "weight_decay": d} for w, d in zip(theirs, (0.5, 0.0), strict=True)]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    ours = [w.clone() for w in start]
    for step in range(3):
        gradients = [torch.full_like(w, step - 1.0) for w in ours]
        Sgd(ours, (0.5, 0.0), 0.1).step(gradients)
        for w, gradient in zip(theirs, gradients, strict=True):
            w.grad = gradient
        optimizer.step()
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


def test_vectors_split_into_matrices_one_by_one_or_as_a_batch() -> None:
    shapes = mlp_shapes(5, 4, 3)
    assert num_parameters(shapes) == GcnShape(5, 4, 3).num_parameters == 32
    vectors = torch.arange(64.0).view(2, 32)
    for i, vector in enumerate(vectors):
        for one, batch in zip(
            split_vector(vector, shapes), split_vector(vectors, shapes), strict=True
        ):
            assert torch.equal(one, batch[i])


def test_initial_weights_are_those_of_the_gcn() -> None:
    one = draw_glorot(mlp_shapes(5, 4, 3), torch_stream(0, "weights"))
    assert torch.equal(one, GcnShape(5, 4, 3).initial(torch_stream(0, "weights")))
