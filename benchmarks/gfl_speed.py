"""GFL-APPNP's clients as one tensor, against one client after another.

    OMP_NUM_THREADS=1 python benchmarks/gfl_speed.py

DNC, 200 clients, I = 10. Both sides do a round's work at the clients: 200 representations with
Jacobians, then ten local steps of the 20 that have labels. The straightforward side takes every
client by itself, its Jacobian by autograd and its gradient (y_hat - y)(A_kk dh_k + dC_k) as the
paper writes it. The two take turns in one process, start from the same weights, and must end in the
same ones; CPU time is summed on each side.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from limits import Row
from torch import Tensor
from torch.nn.functional import one_hot

from securefg.federation.roles import Site
from securefg.foundation.streams import derive_seed
from securefg.methods.gfl_appnp import algorithm as gfl_appnp
from securefg.models.appnp import propagation_matrix
from securefg.models.two_layer_mlp import MlpShape
from securefg.protocol.codec import Clients, Turn
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import load_config


class OneByOne:
    """The algorithm as the paper has it: a loop over clients, full Jacobians by autograd."""

    def __init__(self, experiment: Experiment, matrix: Tensor) -> None:
        graph, run = experiment.union, experiment.config
        self._x, self._y = graph.features, one_hot(graph.labels, graph.num_classes).float()
        self._trainers = graph.split.train.nonzero().flatten().tolist()
        self._matrix, self._run = matrix, run
        self._shape = MlpShape(graph.num_features, 64, graph.num_classes)

    def _hidden(self, vector: Tensor, client: int) -> Tensor:
        first, second = self._shape.split(vector)
        return second @ torch.relu(first @ self._x[client])

    def _with_jacobian(self, vector: Tensor, client: int) -> tuple[Tensor, Tensor]:
        variable = vector.clone().requires_grad_()
        hidden = self._hidden(variable, client)
        rows = [torch.autograd.grad(h, variable, retain_graph=True)[0] for h in hidden]
        return hidden.detach(), torch.stack(rows)

    def represent(self, vector: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [self._with_jacobian(vector, client) for client in range(len(self._x))]

    def learn(self, vector: Tensor, contexts: Tensor, slopes: Tensor) -> Tensor:
        """Ten steps of every client with labels; the mean of what they end with."""
        trained = []
        for row, client in enumerate(self._trainers):
            own_weight, weights = self._matrix[client, client], vector
            for _ in range(self._run.training.local_epochs):
                hidden, jacobian = self._with_jacobian(weights, client)
                predicted = torch.softmax(own_weight * hidden + contexts[client], 0)
                gradient = (predicted - self._y[client]) @ (own_weight * jacobian + slopes[row])
                weights = weights - self._run.training.lr * gradient
            trained.append(weights)
        return torch.stack(trained).mean(0)


def measured(rounds: int) -> tuple[dict[str, float], float]:
    """CPU seconds of each side, and how far their weights are apart."""
    torch.set_num_threads(1)
    experiment = prepare(load_config(Path("configs/gfl_dnc.yaml")))
    run, info = experiment.config, experiment.public
    assert info.edge_index is not None
    assert info.trainers is not None
    matrix = propagation_matrix(info.edge_index, info.num_nodes).float()
    others = matrix.clone().fill_diagonal_(0)
    seed, device = derive_seed(run.seed, "clients"), torch.device("cpu")
    users = gfl_appnp.Users(Site(experiment.shards, run.method, run.training, seed, device))
    loop = OneByOne(experiment, matrix)
    everybody = Turn(1, 1, Clients.of(range(info.num_nodes)))
    trainers = Turn(1, 2, Clients.of(info.trainers.numpy()))
    shape = MlpShape(info.num_features, 64, info.num_classes)
    weights = shape.initial(torch.Generator().manual_seed(0))
    spent, apart = {"one tensor": 0.0, "one by one": 0.0}, 0.0
    for number in range(1, rounds + 1):
        began = time.process_time()
        representation = users.handle(gfl_appnp.Globals(weights=weights, number=number), everybody)
        spent["one tensor"] += time.process_time() - began
        assert isinstance(representation, gfl_appnp.Representation)
        assert representation.jacobian is not None
        context, slope = (
            others @ representation.hidden,
            others[info.trainers] @ representation.jacobian,
        )
        began = time.process_time()
        users.handle(gfl_appnp.Sums(context=context, own=matrix.diagonal().clone()), everybody)
        update = users.handle(gfl_appnp.Learn(slope=slope, number=number), trainers)
        spent["one tensor"] += time.process_time() - began
        assert isinstance(update, gfl_appnp.Update)

        began = time.process_time()
        pairs = loop.represent(weights)
        spent["one by one"] += time.process_time() - began
        contexts = others @ torch.stack([hidden for hidden, _ in pairs])
        jacobians = torch.stack([jacobian for _, jacobian in pairs])
        slopes = torch.tensordot(others[info.trainers], jacobians, dims=1)
        began = time.process_time()
        expected = loop.learn(weights, contexts, slopes)
        spent["one by one"] += time.process_time() - began

        weights = update.weights.mean(0)
        apart = max(apart, float((weights - expected).abs().max()))
        assert apart < 1e-4, f"the two sides differ by {apart}"
    return spent, apart


def rows() -> list[Row]:
    spent, _ = measured(5)
    name = "GFL-APPNP's clients as one tensor, faster than one by one"
    return [Row(name, 10, spent["one by one"] / spent["one tensor"], "x", least=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    spent, apart = measured(rounds)
    for name, seconds in spent.items():
        print(f"{name}: {1000 * seconds / rounds:.1f} ms of CPU a round")
    print(f"ratio: {spent['one by one'] / spent['one tensor']:.0f}x; weights within {apart:.1e}")


if __name__ == "__main__":
    main()
