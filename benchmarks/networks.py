"""The networks of securefg/models against torch-geometric's: agreement, and CPU time of a step.

    OMP_NUM_THREADS=1 python benchmarks/networks.py

Both sides get the same graph and the same weights. A step is the forward pass, the cross-entropy of
the training nodes and the gradients, without dropout. torch-geometric's layers run as they are
written for speed there: normalisation cached, no bias. The two sides take turns, and the ratio is
torch-geometric's CPU time over ours. Cora is read from SECUREFG_DATA; `--csbm` draws a dense graph.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, elu
from torch_geometric.nn import APPNP, GATConv, GCNConv, SAGEConv

from securefg.data.datasets import load
from securefg.data.graph import Graph
from securefg.foundation.streams import torch_stream
from securefg.models.classifiers import Appnp, Gcn, GraphSage, Mlp
from securefg.models.gat import Gat
from securefg.models.network import Network, draw_glorot, split_vector
from securefg.settings.data import DataSettings

HIDDEN, HEADS, TELEPORT, STEPS = 64, 8, 0.1, 10
Forward = Callable[[], Tensor]


def theirs(name: str, graph: Graph, weights: Sequence[Tensor]) -> tuple[Forward, list[Tensor]]:
    """Return torch-geometric's forward pass with these weights, and its parameters."""
    x, edges, classes = graph.features, graph.edge_index, graph.num_classes
    if name == "gcn":
        first, second = (
            GCNConv(a, b, bias=False, cached=True) for a, b in _sizes(graph.num_features, classes)
        )
        _set((first.lin.weight, second.lin.weight), [w.T for w in weights])
        return lambda: second(first(x, edges).relu(), edges), _all(first, second)
    if name == "graphsage":
        first, second = (SAGEConv(a, b, bias=False) for a, b in _sizes(graph.num_features, classes))
        places = (first.lin_r, first.lin_l, second.lin_r, second.lin_l)
        _set([place.weight for place in places], [w.T for w in weights])
        return lambda: second(first(x, edges).relu(), edges), _all(first, second)
    if name == "gat":
        first = GATConv(graph.num_features, HIDDEN // HEADS, HEADS, bias=False)
        second = GATConv(HIDDEN, classes, bias=False)
        _set((first.lin.weight, second.lin.weight), [weights[0].T, weights[3].T])
        heads = (first.att_dst, first.att_src, second.att_dst, second.att_src)
        _set(heads, [weights[place][None] for place in (1, 2, 4, 5)])
        return lambda: second(elu(first(x, edges)), edges), _all(first, second)
    lower, upper = (nn.Linear(a, b, bias=False) for a, b in _sizes(graph.num_features, classes))
    _set((lower.weight, upper.weight), [w.T for w in weights])
    if name == "mlp":
        return lambda: upper(lower(x).relu()), _all(lower, upper)
    spread = APPNP(STEPS, TELEPORT, cached=True)
    return lambda: spread(upper(lower(x).relu()), edges), _all(lower, upper)


def _sizes(num_features: int, num_classes: int) -> tuple[tuple[int, int], ...]:
    return (num_features, HIDDEN), (HIDDEN, num_classes)


def _set(places: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for place, value in zip(places, values, strict=True):
        place.data.copy_(value.detach())


def _all(*modules: nn.Module) -> list[Tensor]:
    return [value for module in modules for value in module.parameters()]


def ours(name: str, graph: Graph) -> Network:
    """Return our network of this name on the graph."""
    cpu = torch.device("cpu")
    made = {
        "gcn": lambda: Gcn(graph, HIDDEN, cpu),
        "graphsage": lambda: GraphSage(graph, HIDDEN, cpu),
        "gat": lambda: Gat(graph, HIDDEN, HEADS, False, cpu),
        "appnp": lambda: Appnp(graph, HIDDEN, TELEPORT, STEPS, cpu),
        "mlp": lambda: Mlp(graph, HIDDEN, cpu),
    }
    return made[name]()


def step(forward: Forward, parameters: Sequence[Tensor], graph: Graph) -> float:
    """Return the CPU seconds of one forward and backward pass."""
    start, train = time.process_time(), graph.split.train
    loss = cross_entropy(forward()[train], graph.labels[train])
    torch.autograd.grad(loss, parameters)
    return time.process_time() - start


def compare(name: str, graph: Graph, steps: int) -> tuple[float, float, float]:
    """Return the largest difference of the scores, and the CPU seconds of a step on each side."""
    network = ours(name, graph)
    vector = draw_glorot(network.shapes, torch_stream(0, "weights"))
    weights = [
        part.detach().clone().requires_grad_() for part in split_vector(vector, network.shapes)
    ]
    there, parameters = theirs(name, graph, weights)
    with torch.no_grad():
        difference = float((network.logits(weights) - there()).abs().max())
    spent = [0.0, 0.0]
    for number in range(steps + 2):  # the first two fill caches
        sides = (
            step(lambda: network.logits(weights), weights, graph),
            step(there, parameters, graph),
        )
        if number >= 2:
            spent = [total + side for total, side in zip(spent, sides, strict=True)]
    return difference, spent[0] / steps, spent[1] / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csbm", type=int, metavar="NODES", help="draw a graph in place of Cora")
    parser.add_argument("--steps", type=int, default=30)
    given = parser.parse_args()
    drawn = {"name": "csbm", "csbm": {"num_nodes": given.csbm, "degree": 10, "graph_signal": 2}}
    settings = DataSettings.model_validate(drawn if given.csbm else {"name": "cora"})
    graph = load(settings, seed=0)
    print(f"{graph.name}: {graph.num_nodes} nodes, {graph.num_features} features")
    print(f"{'network':10} {'difference':>10} {'ours, ms':>9} {'theirs, ms':>10} {'ratio':>6}")
    for name in ("gcn", "graphsage", "gat", "appnp", "mlp"):
        difference, own, other = compare(name, graph, given.steps)
        print(
            f"{name:10} {difference:10.1e} {own * 1e3:9.2f} {other * 1e3:10.2f} {other / own:6.2f}"
        )


if __name__ == "__main__":
    main()
