"""Shadow models as one tensor against one by one: CPU time per shadow, both in this process.

    SECUREFG_DATA=... python benchmarks/shadow_training.py

One by one is the project's own trainer (`training.GcnTrainer`) on the same graph, the same
members and the same number of epochs, without any federation around it; building the operators is
in neither figure. Shadows train on halves of 280 of Cora's nodes, as in an audit of its public
split.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from audits.shadows import GROUP, random_halves
from securefg.data.datasets import load
from securefg.foundation.streams import torch_stream
from securefg.models.batched_gcn import BatchedGcns
from securefg.models.gcn import gcn_inputs
from securefg.models.training import GcnTrainer, Targets
from securefg.settings.data import DataSettings

HIDDEN, EPOCHS, REPEATS, ALONE = 16, 50, 3, 2


def main() -> None:
    torch.set_num_threads(1)
    graph = load(DataSettings(name="cora"), 0)
    shape, adjacency, features = gcn_inputs(graph, HIDDEN, torch.device("cpu"))
    pool = torch.cat([graph.split.train.nonzero(), graph.split.test.nonzero()[:140]]).flatten()
    member = torch.zeros(GROUP, graph.num_nodes, dtype=torch.bool)
    member[:, pool] = torch.from_numpy(random_halves(graph.labels[pool].numpy(), GROUP, 0))
    vectors = torch.stack([shape.initial(torch_stream(0, "weights", n)) for n in range(GROUP)])

    def together(dropout: float) -> Tensor:
        networks = BatchedGcns(shape, vectors, 0.01, 5e-4)
        stream = torch_stream(0, "dropout")
        networks.train(EPOCHS, adjacency, features, graph.labels, member, dropout, stream)
        return networks.vectors()

    def one_by_one(dropout: float) -> Tensor:
        trained_vectors = []
        for own, vector in zip(member[:ALONE], vectors[:ALONE], strict=True):
            trainer = GcnTrainer(shape, vector, 0.01, 5e-4)
            targets = Targets(own.nonzero().flatten(), graph.labels[own])
            stream = torch_stream(0, "dropout")
            trainer.train(EPOCHS, adjacency, features, [targets], dropout, stream)
            trained_vectors.append(trainer.vector())
        return torch.stack(trained_vectors)

    for dropout in (0.0, 0.5):
        batched, single = [], []
        for _ in range(REPEATS):  # in turns, so that both meet the same machine
            started = time.process_time()
            first = together(dropout)
            batched.append((time.process_time() - started) / GROUP)
            started = time.process_time()
            second = one_by_one(dropout)
            single.append((time.process_time() - started) / ALONE)
        apart = float((first[:ALONE] - second).abs().max())
        print(
            f"dropout {dropout}: {EPOCHS} epochs of a shadow {min(batched) * 1e3:.1f} ms as one of "
            f"{GROUP}, {min(single) * 1e3:.1f} ms alone: {min(single) / min(batched):.1f} times "
            f"faster; weights differ by at most {apart:.1e}" + (" (other masks)" if dropout else "")
        )


if __name__ == "__main__":
    main()
