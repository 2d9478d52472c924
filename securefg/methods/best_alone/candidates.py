"""Ways for one party to classify its own nodes from its own graph. Nothing is exchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.roles import Site
from securefg.foundation.streams import torch_stream
from securefg.methods.at_home import hits_of, predict_alone, predict_with, spread_over_links
from securefg.methods.best_alone.settings import Settings
from securefg.methods.two_sums.features import (
    CONSTANT,
    class_sums,
    feature_length,
    known_labels,
    moments_of,
    own_rows,
    rows_of,
)
from securefg.models.classifiers import Gcn
from securefg.models.discriminant import class_scores, solve_discriminant
from securefg.models.network import draw_glorot, split_vector
from securefg.models.training import Trainer

HIDDEN, RATE, DECAY, DROPOUT = 16, 0.01, 5e-4, 0.5
"""Of the GCN, as its paper has them."""

RIDGES: Final = (0.1, 1.0, 10.0, 100.0)


def _regression_spread(graph: Graph, site: Site[Settings]) -> Tensor:
    return predict_alone(graph)


def _train_regression(graph: Graph, site: Site[Settings]) -> Tensor:
    return predict_alone(graph, share=0.0)


def _label_propagation(graph: Graph, site: Site[Settings]) -> Tensor:
    counts = known_labels(graph).sum(0).numpy() + 0.5
    start = np.tile(counts / counts.sum(), (graph.num_nodes, 1))
    return torch.from_numpy(spread_over_links(graph, start)).clamp_min(1e-4).log()


def _class_sums(graph: Graph, site: Site[Settings]) -> Tensor:
    """Class scores of the own features, spread over the own links."""
    scores = class_scores(class_sums(graph), 0.0, site.method.encoding == "rates")
    return predict_with(graph, own_rows(graph) @ scores, few=graph.num_nodes + 1)


def _own_sums(graph: Graph, site: Site[Settings]) -> Tensor:
    """The head of two_sums from the own sums, with the ridge that validation nodes favour."""
    settings, projection = site.method, None
    if graph.num_features > settings.narrow:
        projection = class_scores(class_sums(graph), 0.0, settings.encoding == "rates")
    rows = rows_of(graph, projection, settings)
    own = moments_of(graph, rows)
    solved = (solve_discriminant(own, CONSTANT / feature_length(), 0.0, ridge) for ridge in RIDGES)
    logits = [rows @ weights + offsets for weights, offsets in solved]
    return max(logits, key=lambda one: int(hits_of(graph, one).sum()))


def _train_gcn(graph: Graph, site: Site[Settings]) -> Tensor:
    """A GCN of two layers, with the weights of the best validation accuracy."""
    network = Gcn(graph, HIDDEN, site.device)
    train = graph.split.train.nonzero().flatten().to(site.device)
    classes = graph.labels.to(site.device)[train]
    client = site.shards[0].client
    initial = draw_glorot(network.shapes, torch_stream(site.seed, "weights", client)).to(
        site.device
    )
    trainer = Trainer(network, initial, "adam", RATE, DECAY)
    stream = torch_stream(site.seed, "dropout", client, device=str(site.device))
    best, most = torch.zeros(graph.num_nodes, graph.num_classes), -math.inf
    for _ in range(site.method.epochs if len(train) else 0):
        trainer.train(1, train, classes, DROPOUT, stream, None)
        with torch.no_grad():
            logits = network.logits(split_vector(trainer.vector(), network.shapes)).cpu()
        reached = float(hits_of(graph, logits).sum())
        if reached > most:
            best, most = logits, reached
    return best.double()


CANDIDATES: Final[Mapping[str, Callable[[Graph, Site[Settings]], Tensor]]] = MappingProxyType(
    {
        "regression_spread": _regression_spread,
        "regression": _train_regression,
        "label_propagation": _label_propagation,
        "class_sums": _class_sums,
        "own_sums": _own_sums,
        "gcn": _train_gcn,
    }
)
"""The first is the default: logistic regression on a node's features, its neighbours' labels and
their features, averaged over links."""
