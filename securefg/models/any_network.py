"""Any `torch.nn.Module` over (x, edge_index) as a flat vector of weights, whoever wrote it.

A network with the argument `edge_dim` is called with `edge_attr` too, the features of the edges.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import import_path
from securefg.foundation.postponed_imports import postpone_imports
from securefg.foundation.suggestions import explain_unknown_name
from securefg.protocol.meanings import Layer, Layout, Matrix

LIBRARY = "torch_geometric.nn.models"
UNUSED_PARTS = (
    "torch._dynamo",
    "torch_geometric.datasets",
    "torch_geometric.explain",
    "torch_geometric.profile",
)
"""Parts that the library imports at once and no network needs: two thirds of its start-up."""
EDGE_DIM = "edge_dim"
POPULAR = ("GCN", "GraphSAGE", "GAT", "GIN", "EdgeCNN", "MLP")


def ring_edges(num_nodes: int) -> Tensor:
    """Return edges both ways around a ring, where a network that reads neighbours shows it."""
    nodes = torch.arange(num_nodes)
    forth = torch.stack([nodes, (nodes + 1) % num_nodes])
    return torch.cat([forth, forth.flip(0)], 1)


def answer_nodes(
    module: nn.Module, x: Tensor, edge_index: Tensor, edge_features: Tensor | None = None
) -> Tensor:
    """Return a network's scores, over edges with features if it reads any."""
    if edge_features is None:
        found: Tensor = module(x, edge_index)
    else:
        found = module(x, edge_index, edge_attr=edge_features)
    return found


def read_edges(graph: Graph, arguments: Mapping[str, Any]) -> Tensor | None:
    """Return the features of the graph's edges as the network's arguments ask for them."""
    wanted = arguments.get(EDGE_DIM)
    if wanted is None:
        return None
    if wanted != graph.num_edge_features:
        raise ConfigError(
            f"method.arguments.{EDGE_DIM}: found {wanted}; expected "
            f"{graph.num_edge_features or None} as the edges of the data have it (tables.yaml: "
            "`transfers: {become: edges}`)"
        )
    return graph.edge_features


def build_network(
    network: str, arguments: Mapping[str, Any], num_features: int, num_classes: int, seed: int
) -> nn.Module:
    """Return the network with first weights drawn from `seed`. Raise ConfigError if it cannot be
    averaged."""
    with seeded_stream(seed):
        module = _make_network(network, dict(arguments), num_features, num_classes)
    lazy = [name for name, value in module.named_parameters() if nn.parameter.is_lazy(value)]
    if lazy:
        raise ConfigError(f"method.network: {network} leaves the shape of {lazy[0]} open")
    if not any(value.requires_grad for value in module.parameters()):
        raise ConfigError(f"method.network: {network} has no weights to train")
    with seeded_stream(
        seed + 1
    ):  # another one is tried: what a pass leaves behind (caches) stays there
        tried = _make_network(network, dict(arguments), num_features, num_classes)
        _try_network(network, tried, num_features, num_classes, arguments.get(EDGE_DIM))
    fixed, kept = dict(module.named_buffers()), dict(tried.named_buffers())
    for name in {**fixed, **kept}:
        if name not in fixed or name not in kept or not torch.equal(fixed[name], kept[name]):
            raise ConfigError(
                f"method.network: {network} keeps {name} beside its weights, which averaging the "
                "weights would leave behind; allowed: networks without running statistics (batch "
                "norm) or random constants"
            )
    shapes, used = (
        {name: value.shape for name, value in made.named_parameters()} for made in (module, tried)
    )
    if shapes != used:
        raise ConfigError(f"method.network: {network} makes weights when it is called")
    return module


def _try_network(
    network: str, module: nn.Module, num_features: int, num_classes: int, edge_dim: int | None
) -> None:
    """Run one pass as in training. Raise ConfigError unless it gives a score per node and class."""
    edges = ring_edges(8)
    numbers = None if edge_dim is None else torch.rand(edges.shape[1], edge_dim)
    try:
        network_output = answer_nodes(module.train(), torch.rand(8, num_features), edges, numbers)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"method.network: {network} fails on (x, edge_index) of 8 nodes: {said}"
        ) from error
    shape = (
        tuple(network_output.shape)
        if isinstance(network_output, Tensor)
        else type(network_output).__name__
    )
    if shape != (8, num_classes):
        raise ConfigError(
            f"method.network: {network} gives {shape} for 8 nodes; wanted a score per node and "
            f"class, (8, {num_classes})"
        )


def _make_network(
    network: str, arguments: dict[str, Any], num_features: int, num_classes: int
) -> nn.Module:
    try:
        if "." in network or ":" in network:
            made = _import_own(network)(num_features, num_classes, **arguments)
        else:
            made = _of_the_library(network, arguments, num_features, num_classes)
    except ConfigError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(
            f"method.network: {network} cannot be made with method.arguments "
            f"{dict(arguments)}: {said}"
        ) from error
    if not isinstance(made, nn.Module):
        raise ConfigError(
            f"method.network: {network} gave a {type(made).__name__}; wanted a torch.nn.Module"
        )
    return made


def _import_own(path: str) -> Any:
    """Return a class or a function by its path. Modules are looked up from the working folder
    too."""
    module, _, name = path.replace(":", ".").rpartition(".")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return getattr(import_path("method.network", module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ConfigError(
            f"method.network: found {path}, which cannot be imported from here ({error}); expected "
            f"a model of torch-geometric ({', '.join(POPULAR)}), or a module path"
        ) from error


def _of_the_library(
    name: str, arguments: dict[str, Any], num_features: int, num_classes: int
) -> nn.Module:
    with postpone_imports(*UNUSED_PARTS):
        models = importlib.import_module(LIBRARY)
    kind = getattr(models, name, None)
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise ConfigError(explain_unknown_name("method.network", name, POPULAR, "a module path"))
    sizes = {"in_channels": num_features, "out_channels": num_classes}
    if name == "MLP":  # batch norm is its default, and has no place in an average
        made: nn.Module = kind(
            **sizes, **{"hidden_channels": 16, "num_layers": 2, "norm": None, **arguments}
        )
        return _WithoutEdges(made)
    return kind(**sizes, **{"hidden_channels": 16, "num_layers": 2, **arguments})


class _WithoutEdges(nn.Module):
    """A network of rows alone, called as one of graphs is."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        found: Tensor = self.rows(x)
        return found


@contextmanager
def seeded_stream(seed: int) -> Any:
    """Give foreign code, which draws from torch's global stream, a stream of its own for as
    long."""
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed % 2**63)
        yield


def vector_of(module: nn.Module) -> Tensor:
    """Return all parameters as one vector, detached."""
    return parameters_to_vector(module.parameters()).detach()


def load_vector(module: nn.Module, vector: Tensor) -> None:
    """Copy a vector into the parameters, so that training in place does not change what was
    sent."""
    own = list(module.parameters())
    parts = torch.split(vector, [p.numel() for p in own])
    with torch.no_grad():
        for parameter, part in zip(own, parts, strict=True):
            parameter.copy_(part.view_as(parameter))


def layout_of(
    module: nn.Module, num_features: int, num_classes: int, optimizer: Literal["adam", "sgd"]
) -> Layout:
    """Return what everybody can tell of a module from its parameters: its first matrices over
    features, and its last matrix whose outputs are classes."""
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    first = [name for name in matrices if shapes[name][1] == num_features and "edge" not in name]
    # A first layer may have several matrices (own and neighbours' rows); a later one of the same
    # width belongs to another layer, known by the prefix of its name.
    stem = _layer_stem(first[0]) if first else ""
    inputs = tuple(
        Matrix(name, transposed=True, bias=_bias_name(name, shapes))
        for name in first
        if _layer_stem(name) == stem
    )
    last = [name for name in matrices if shapes[name][0] == num_classes]
    hidden = shapes[first[0]][0] if first else 16
    return Layout(
        layers=tuple(Layer(name, shape) for name, shape in shapes.items()),
        inputs=inputs,
        output=Matrix(last[-1], transposed=True) if last else None,
        optimizer=optimizer,
        hidden=hidden,
        dropout=0.0,
    )


def _layer_stem(name: str) -> str:
    """Return the layer of a name, two names deep as torch-geometric has it: `convs.0.lin_l.weight`
    gives `convs.0`."""
    return ".".join(name.split(".")[:2])


def _bias_name(weight: str, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    name = weight.removesuffix("weight") + "bias"
    return name if shapes.get(name) == shapes[weight][:1] else None
