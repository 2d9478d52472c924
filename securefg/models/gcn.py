"""The two-layer graph convolutional network of Kipf and Welling (2017), over sparse features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Protocol

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.models.network import TwoLayers, drop_values, split_vector
from securefg.models.shared_operators import share_operator
from securefg.models.sparse import FeatureMatrix, SparseMatrix, feature_matrix, sampled_rows
from securefg.protocol.meanings import Layer, Layout, Matrix


class Operator(Protocol):
    """A factor of a convolution: a matrix, or a sum of matrices."""

    def __matmul__(self, dense: Tensor) -> Tensor: ...

    def product(self, dense: Tensor) -> Tensor:
        """Return operator @ dense, without a gradient."""
        ...

    def product_transposed(self, dense: Tensor) -> Tensor:
        """Return the transpose @ dense, without a gradient."""
        ...

    def at(self, rows: Tensor) -> Operator:
        """Return some rows, in the order asked for."""


@dataclass(frozen=True)
class SumOf:
    """A + B as an operator, without merging their entries."""

    terms: tuple[SparseMatrix, ...]

    def __matmul__(self, dense: Tensor) -> Tensor:
        product = self.terms[0] @ dense
        for term in self.terms[1:]:
            product = product + term @ dense
        return product

    def product(self, dense: Tensor) -> Tensor:
        """Return (A + B) @ dense, without a gradient."""
        return reduce(add, (term.product(dense) for term in self.terms))

    def product_transposed(self, dense: Tensor) -> Tensor:
        """Return (A + B)^T @ dense, without a gradient."""
        return reduce(add, (term.product_transposed(dense) for term in self.terms))

    def at(self, rows: Tensor) -> SumOf:
        """Return some rows of A + B, in the order asked for."""
        return SumOf(tuple(term.at(rows) for term in self.terms))


class GcnShape(TwoLayers):
    """A set of the sizes of a two-layer GCN."""

    def split(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Return W0 (d x h) and W1 (h x C) as views of the vector."""
        return split_vector(vector, self.matrices)


def run_gcn(
    weights: Sequence[Tensor],
    adjacency: Operator,
    features: FeatureMatrix,
    dropout: float = 0.0,
    stream: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return hidden layer and logits: H = ReLU(A X W0), Z = A H W1.

    In training, when a stream is given, dropout acts on X and on H.
    """
    first, second = weights
    values = drop_values(features.values, dropout, stream)
    hidden = torch.relu(adjacency @ features.matmul(first, values))
    return hidden, adjacency @ (drop_values(hidden, dropout, stream) @ second)


def sampled_gcn(
    weights: Sequence[Tensor],
    terms: Sequence[SparseMatrix],
    features: FeatureMatrix,
    nodes: Tensor,
    fan_out: tuple[int, ...],
    dropout: float,
    streams: tuple[torch.Generator, torch.Generator],
) -> Tensor:
    """Return logits of `nodes` in training with A the sum of `terms`, where entries of A's rows are
    drawn: `fan_out` a row and term. The streams are those of the draws and of dropout."""
    first, second = weights
    drawing, dropping = streams
    outer, middle = sampled_rows(terms, nodes, fan_out[0], drawing)
    inner, inputs = sampled_rows(terms, middle, fan_out[1], drawing)
    own = features.at(inputs)
    hidden = torch.relu(inner @ own.matmul(first, drop_values(own.values, dropout, dropping)))
    return outer @ (drop_values(hidden, dropout, dropping) @ second)


def normalized_adjacency(edge_index: Tensor, num_nodes: int) -> SparseMatrix:
    """Return A_hat = D^-1/2 (A + I) D^-1/2."""
    loops = torch.arange(num_nodes)
    row = torch.cat([edge_index[0], loops])
    column = torch.cat([edge_index[1], loops])
    inverse_root = torch.bincount(row, minlength=num_nodes).float().rsqrt()
    values = inverse_root[row] * inverse_root[column]
    return SparseMatrix.from_entries(row, column, values, (num_nodes, num_nodes))


def gcn_inputs(
    graph: Graph, hidden: int, device: torch.device
) -> tuple[GcnShape, SparseMatrix, FeatureMatrix]:
    """Return what a GCN on a graph needs: the shape of its weights, A_hat, and the features."""
    shape = GcnShape(graph.num_features, hidden, graph.num_classes)
    edges, num_nodes = graph.edge_index, graph.num_nodes
    adjacency = share_operator(
        "adjacency",
        (edges,),
        (num_nodes, device),
        lambda: normalized_adjacency(edges, num_nodes).to(device),
    )
    features = share_operator(
        "features", (graph.features,), (device,), lambda: feature_matrix(graph.features).to(device)
    )
    return shape, adjacency, features


def gcn_layout(shape: GcnShape, dropout: float) -> Layout:
    """Return the layout of A ReLU(A X W0) W1, for those who are shown its weights."""
    return Layout(
        layers=(Layer("first", shape.matrices[0]), Layer("second", shape.matrices[1])),
        inputs=(Matrix("first"),),
        output=Matrix("second"),
        form="gcn2",
        optimizer="adam",
        hidden=shape.hidden,
        dropout=dropout,
    )
