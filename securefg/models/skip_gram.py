"""Random walks, and skip-gram with negative sampling over them: DeepWalk, trained by gensim.

    log s(x_v . c_u) + sum over negatives n ~ count^0.75 of log s(-x_v . c_n)

for every pair (v, u) within a window of a walk (Mikolov et al. 2013, Perozzi et al. 2014). Both
matrices, x (the embedding) and c (the contexts), can be read and set between trainings: training
goes on from whatever stands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from gensim.models import Word2Vec
from numpy.typing import NDArray
from torch import Tensor

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbours:
    """A list of every node's neighbours, node after node (CSR): node v has neighbours[offsets[v] :
    ...]."""

    offsets: Nodes
    neighbours: Nodes

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Self:
        """Return the neighbours from (2, E) edges sorted by source, as a `Graph` has them."""
        source, target = edge_index.cpu().numpy()
        counts = np.bincount(source, minlength=num_nodes)
        return cls(np.concatenate([[0], counts.cumsum()]), target)

    @property
    def degrees(self) -> Nodes:
        """Return the number of neighbours of every node, (N,)."""
        return np.diff(self.offsets)


def random_walks(
    graph: Neighbours, num_walks: int, length: int, stream: np.random.Generator
) -> Nodes:
    """Return (walks, length): `num_walks` uniform walks from every node that has a neighbour,
    shuffled.

    A node without neighbours has no walk: skip-gram learns from pairs, and it is in none.
    """
    degrees = graph.degrees
    starts = np.tile(np.flatnonzero(degrees), num_walks)
    walks = np.empty((len(starts), length), np.int64)
    walks[:, 0] = stream.permutation(starts)
    for step in range(1, length):
        at = walks[:, step - 1]
        choice = (stream.random(len(at)) * degrees[at]).astype(np.int64)
        walks[:, step] = graph.neighbours[graph.offsets[at] + choice]
    return walks


Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class SkipGramShape:
    """A set of the sizes of a skip-gram model."""

    dim: int = 16
    window: int = 5
    negatives: int = 5


class SkipGram:
    """A pair of matrices. Row v belongs to node v.

    frequencies  how often a node is drawn as a negative, before the power of 3/4; in random walks a
                 node occurs in proportion to its degree
    embedding    where the embedding starts; the contexts start at zero
    """

    def __init__(self, shape: SkipGramShape, frequencies: Nodes, embedding: Matrix) -> None:
        self._model = Word2Vec(
            vector_size=shape.dim,
            window=shape.window,
            negative=shape.negatives,
            sg=1,
            min_count=0,
            sample=0,
            workers=1,  # more would race, and no run would repeat another
            sorted_vocab=0,
        )
        # A frequency of zero would leave the node out of the vocabulary.
        counts = {node: max(int(count), 1) for node, count in enumerate(frequencies)}
        self._model.build_vocab_from_freq(counts)
        self.embedding[:] = embedding

    @property
    def embedding(self) -> Matrix:
        """Return x, (N, dim). Writing into it sets it."""
        vectors: Matrix = self._model.wv.vectors
        return vectors

    @property
    def contexts(self) -> Matrix:
        """Return c, (N, dim). Writing into it sets it."""
        contexts: Matrix = self._model.syn1neg
        return contexts

    def train(
        self, walks: Nodes, stream: np.random.Generator, lr: float = 0.025, min_lr: float = 1e-4
    ) -> None:
        """Train one pass over the walks. The rate falls linearly from `lr` to `min_lr`."""
        self._model.random = np.random.RandomState(stream.integers(2**32))
        self._model.min_alpha_yet_reached = lr  # a rate that rises again is meant, not to be logged
        self._model.train(
            walks.tolist(),
            total_examples=len(walks),
            epochs=1,
            start_alpha=lr,
            end_alpha=min_lr,
        )


def initial_embedding(num_nodes: int, dim: int, stream: np.random.Generator) -> Matrix:
    """Return rows uniform in (-1/2d, 1/2d), as word2vec starts."""
    return ((stream.random((num_nodes, dim)) - 0.5) / dim).astype(np.float32)
