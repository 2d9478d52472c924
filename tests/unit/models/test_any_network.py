"""Any network is a flat vector: made from a seed, loaded by copy, laid out for attacks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from securefg.foundation.errors import ConfigError
from securefg.models.any_network import (
    build_network,
    layout_of,
    load_vector,
    seeded_stream,
    vector_of,
)
from securefg.protocol.meanings import Matrix

FEATURES, CLASSES = 7, 3
RING = torch.stack([torch.arange(5), (torch.arange(5) + 1) % 5])
ROWS = torch.arange(35.0).reshape(5, FEATURES) / 35


class Pair(nn.Module):
    """Two linear maps; the second takes as many numbers as there are features."""

    def __init__(self, num_features: int, num_classes: int, bias: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, num_features, bias=bias)
        self.second = nn.Linear(num_features, num_classes, bias=bias)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


class Normed(Pair):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.norm = nn.BatchNorm1d(num_features)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(self.norm(x), edge_index)


class Open(nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.last = nn.LazyLinear(num_classes)


class Noisy(Pair):
    """Every party that builds it would have another constant."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.register_buffer("shift", torch.rand(num_features))


class Counting(Pair):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x, edge_index)


class Scaled(Pair):
    """A constant that everybody knows leaves nothing behind."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x * self.scale, edge_index)


class Late(Pair):
    """Makes a constant, or weights, when it is called."""

    def __init__(self, num_features: int, num_classes: int, weights: bool = False) -> None:
        super().__init__(num_features, num_classes)
        self.weights = weights

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.weights:
            self.late = nn.Linear(1, 1)
        else:
            self.register_buffer("calls", torch.tensor(0))
        return super().forward(x, edge_index)


class Broken(Pair):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.missing()


class Pooled(Pair):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index).mean(0)


class Tuple(Pair):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index), x  # type: ignore[return-value]


class RowsOnly(Pair):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x)


class Constant(nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x.new_zeros(len(x), self.num_classes)


def no_module(num_features: int, num_classes: int) -> list[int]:
    return [num_features, num_classes]


def own(name: str) -> str:
    return f"tests.unit.models.test_any_network.{name}"


def made(network: str, seed: int = 1, **arguments: Any) -> nn.Module:
    return build_network(network, arguments, FEATURES, CLASSES, seed)


# ------------------------------------------------------------------------------------ building


@pytest.mark.parametrize(
    ("network", "arguments"),
    [
        ("GCN", {}),
        ("GraphSAGE", {"hidden_channels": 5, "num_layers": 3}),
        ("GAT", {"heads": 2}),
        ("GIN", {"norm": "layer_norm"}),
        ("MLP", {}),
        ("EdgeCNN", {}),
        (own("Pair"), {"bias": False}),
        (own("Scaled"), {}),
    ],
)
def test_a_network_by_name_gives_a_score_per_node_and_class(
    network: str, arguments: dict[str, Any]
) -> None:
    assert made(network, **arguments).eval()(ROWS, RING).shape == (5, CLASSES)


def test_arguments_are_the_networks_own() -> None:
    from torch_geometric import nn as pyg  # seconds, which collection need not take

    ours = made("GraphSAGE", seed=4, hidden_channels=5, num_layers=3, dropout=0.5)
    with seeded_stream(4):
        theirs = pyg.GraphSAGE(FEATURES, 5, 3, CLASSES, dropout=0.5)
    assert str(ours) == str(theirs)
    assert torch.equal(vector_of(ours), vector_of(theirs))


def test_first_weights_are_the_seeds_alone_and_leave_torchs_stream_as_it_was() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, again, other = (vector_of(made("GCN", seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_seeds_of_any_size_are_taken() -> None:
    with seeded_stream(2**64 - 1):
        large = torch.rand(3)
    with seeded_stream((2**64 - 1) % 2**63):
        assert torch.equal(torch.rand(3), large)


@pytest.mark.parametrize(
    ("network", "arguments", "message"),
    [
        ("Transformer", {}, "'Transformer'.*GraphSAGE.*or a module path"),
        ("nn", {}, "'nn'.*or a module path"),
        ("BasicGNN", {}, "BasicGNN"),
        ("GCN", {"hiden_channels": 8}, "GCN cannot be made with method.arguments.*hiden_channels"),
        ("GCN", {"in_channels": 8}, "GCN cannot be made with method.arguments.*in_channels"),
        ("GCN", {"norm": "batch_norm"}, "keeps .*running.* beside its weights"),
        ("MLP", {"norm": "batch_norm"}, "keeps .*running.* beside its weights"),
        (own("Normed"), {}, "keeps norm.running_mean beside its weights"),
        (own("Noisy"), {}, "keeps shift beside its weights"),
        (own("Counting"), {}, "keeps calls beside its weights"),
        (own("Late"), {}, "keeps calls beside its weights"),
        (own("Late"), {"weights": True}, "makes weights when it is called"),
        (own("Broken"), {}, "Broken cannot be made with method.arguments.*missing"),
        ("GCN", {"jk": "foo"}, "GCN cannot be made with method.arguments.*AssertionError"),
        ("GCN", {"hidden_channels": -5}, "GCN cannot be made with method.arguments.*negative"),
        (own("Pooled"), {}, r"gives \(3,\) for 8 nodes; wanted .* \(8, 3\)"),
        (own("Tuple"), {}, "gives tuple for 8 nodes"),
        (own("RowsOnly"), {}, r"fails on \(x, edge_index\) of 8 nodes"),
        (own("Constant"), {}, "has no weights to train"),
        (own("Open"), {}, "leaves the shape of last.weight open"),
        (own("no_module"), {}, "gave a list; wanted a torch.nn.Module"),
        (own("Missing"), {}, "cannot be imported from here.*torch-geometric"),
        ("no_such_package.Net", {}, "cannot be imported from here.*no_such_package"),
        (own("Pair"), {"depth": 2}, "Pair cannot be made with method.arguments.*depth"),
    ],
)
def test_what_cannot_be_made_or_averaged_is_refused(
    network: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"method.network: .*{message}"):
        made(network, **arguments)


def test_a_network_that_caches_its_graph_has_seen_none_when_it_is_made() -> None:
    cached, plain = made("GCN", cached=True), made("GCN")
    assert torch.equal(cached.eval()(ROWS, RING), plain.eval()(ROWS, RING))


# ------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize("network", ["GCN", "GAT", own("Pair")])
def test_a_loaded_vector_is_the_network_it_came_from(network: str) -> None:
    one, other = made(network, 1).eval(), made(network, 2).eval()
    assert not torch.equal(one(ROWS, RING), other(ROWS, RING))
    load_vector(other, vector_of(one))
    assert torch.equal(one(ROWS, RING), other(ROWS, RING))


def test_training_a_network_leaves_the_vector_it_was_sent() -> None:
    module = made("GCN")
    sent = vector_of(module).clone()
    kept = sent.clone()
    load_vector(module, sent)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    assert torch.equal(sent, kept)
    assert torch.allclose(vector_of(module), kept + 1)


# ------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("network", ["GCN", "GraphSAGE", "GAT", "GIN", "MLP", own("Pair")])
def test_a_layout_covers_the_vector_part_after_part(network: str) -> None:
    module = made(network)
    layout = layout_of(module, FEATURES, CLASSES, "adam")
    vector = vector_of(module)
    assert layout.size == len(vector)
    for name, parameter in module.named_parameters():
        assert torch.equal(layout.layer(vector, name), parameter)


def test_a_layout_knows_the_first_matrices_and_the_one_over_classes() -> None:
    module = made("GraphSAGE", hidden_channels=5)
    layout = layout_of(module, FEATURES, CLASSES, "sgd")
    own_rows = Matrix("convs.0.lin_r.weight", transposed=True)
    neighbours = Matrix("convs.0.lin_l.weight", transposed=True, bias="convs.0.lin_l.bias")
    assert set(layout.inputs) == {own_rows, neighbours}
    assert layout.output is not None
    assert layout.output.layer.startswith("convs.1.")
    assert layout.part(vector_of(module), layout.inputs[0]).shape == (FEATURES, 5)
    assert layout.part(vector_of(module), layout.output).shape == (5, CLASSES)
    assert (layout.hidden, layout.optimizer) == (5, "sgd")


def test_a_later_layer_as_wide_as_the_features_is_no_first_layer() -> None:
    layout = layout_of(made(own("Pair")), FEATURES, CLASSES, "adam")
    assert layout.inputs == (Matrix("first.weight", transposed=True, bias="first.bias"),)
    assert layout.output == Matrix("second.weight", transposed=True)


def test_a_layout_without_features_or_classes_in_it_says_nothing_of_them() -> None:
    layout = layout_of(nn.Linear(11, 13), FEATURES, CLASSES, "adam")
    assert (layout.inputs, layout.output) == ((), None)
    assert layout.size == 11 * 13 + 13
    assert not math.isnan(layout.dropout)
