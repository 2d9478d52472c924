"""DeepWalk on Cora: ours against a plain PyTorch skip-gram loop, on the same walks.

    python benchmarks/deepwalk_speed.py

The loop is what one writes first: walks stepped node by node, pairs gathered into batches, two
`nn.Embedding`s, five negatives, Adam with sparse gradients. Prints seconds, their ratio, and the
accuracy of a linear probe on each embedding, so that no speed is bought with a worse embedding.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from limits import Row
from torch import nn

from securefg.data.datasets import load
from securefg.data.graph import Graph
from securefg.models.probes import linear_probe
from securefg.models.skip_gram import (
    Neighbours,
    Nodes,
    SkipGram,
    SkipGramShape,
    initial_embedding,
    random_walks,
)
from securefg.settings.data import DataSettings, SplitSettings

SHAPE = SkipGramShape(dim=16, window=5, negatives=5)


def ours(graph: Graph, num_walks: int, length: int) -> torch.Tensor:
    stream = np.random.default_rng(0)
    neighbours = Neighbours.of(graph.edge_index, graph.num_nodes)
    start = initial_embedding(graph.num_nodes, SHAPE.dim, stream)
    model = SkipGram(SHAPE, neighbours.degrees, start)
    model.train(random_walks(neighbours, num_walks, length, stream), stream, lr=0.05)
    return torch.from_numpy(model.embedding)


def plain_walks(neighbours: Neighbours, num_walks: int, length: int) -> Nodes:
    stream, walks = np.random.default_rng(0), []
    for start in np.tile(np.flatnonzero(neighbours.degrees), num_walks):
        walk = [start]
        for _ in range(length - 1):
            first, last = neighbours.offsets[walk[-1]], neighbours.offsets[walk[-1] + 1]
            walk.append(neighbours.neighbours[stream.integers(first, last)])
        walks.append(walk)
    return np.array(walks)


def plain(graph: Graph, num_walks: int, length: int, batch: int = 4096) -> torch.Tensor:
    torch.manual_seed(0)
    neighbours = Neighbours.of(graph.edge_index, graph.num_nodes)
    walks = torch.from_numpy(plain_walks(neighbours, num_walks, length))
    pairs = []
    for offset in range(1, SHAPE.window + 1):
        before, after = walks[:, :-offset].flatten(), walks[:, offset:].flatten()
        pairs += [torch.stack([before, after]), torch.stack([after, before])]
    together = torch.cat(pairs, 1)
    # A window's size is drawn from 1 to 5 per node, as word2vec does: 3 of 5 pairs are kept.
    kept = torch.randperm(together.shape[1])[: together.shape[1] * 3 // 5]
    frequencies = torch.from_numpy(neighbours.degrees).double().clamp_min(1) ** 0.75
    embedding = nn.Embedding(graph.num_nodes, SHAPE.dim, sparse=True)
    contexts = nn.Embedding(graph.num_nodes, SHAPE.dim, sparse=True)
    nn.init.uniform_(embedding.weight, -0.5 / SHAPE.dim, 0.5 / SHAPE.dim)
    nn.init.zeros_(contexts.weight)
    optimizer = torch.optim.SparseAdam([*embedding.parameters(), *contexts.parameters()], lr=0.01)
    for chosen in kept.split(batch):
        centre, context = together[:, chosen]
        drawn = torch.multinomial(frequencies, len(chosen) * SHAPE.negatives, replacement=True)
        negative = drawn.view(len(chosen), SHAPE.negatives)
        rows = embedding(centre)
        near = (rows * contexts(context)).sum(-1)
        far = (contexts(negative) @ rows.unsqueeze(-1)).squeeze(-1)
        loss = -(nn.functional.logsigmoid(near).sum() + nn.functional.logsigmoid(-far).sum())
        optimizer.zero_grad()
        (loss / len(chosen)).backward()
        optimizer.step()
    return embedding.weight.detach()


def accuracy(embedding: torch.Tensor, graph: Graph) -> float:
    logits = linear_probe(embedding, graph.labels, graph.split.train, graph.num_classes)
    test = graph.split.test
    return float((logits.argmax(1) == graph.labels)[test].double().mean())


def measured(num_walks: int, length: int) -> dict[str, float]:
    """CPU seconds of each side."""
    torch.set_num_threads(1)
    graph = load(DataSettings(name="cora", split=SplitSettings(kind="folds")), 0)
    seconds = {}
    for name, train in (("ours", ours), ("plain PyTorch", plain)):
        began, cpu = time.perf_counter(), time.process_time()
        embedding = train(graph, num_walks, length)
        wall, seconds[name] = time.perf_counter() - began, time.process_time() - cpu
        found = accuracy(embedding, graph)
        print(f"{name:14} {seconds[name]:6.1f} s CPU  {wall:6.1f} s wall  probe {found:.3f}")
    return seconds


def rows() -> list[Row]:
    seconds = measured(10, 40)
    name = "DeepWalk on Cora, faster than a plain PyTorch skip-gram loop"
    return [Row(name, 3, seconds["plain PyTorch"] / seconds["ours"], "x", least=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=10)
    parser.add_argument("--length", type=int, default=40)
    args = parser.parse_args()
    seconds = measured(args.walks, args.length)
    print(f"ratio (CPU)    {seconds['plain PyTorch'] / seconds['ours']:.1f}")


if __name__ == "__main__":
    main()
