"""The GAT with a pull: its hidden layer follows given rows, its labels stay what they are."""

from __future__ import annotations

import torch
from torch.nn.functional import cosine_similarity

from securefg.data.graph import Graph, Split, undirected
from securefg.models.gat import Gat, PublicGat, PublicGatTrainer, Pull

CPU = torch.device("cpu")


def graph(count: int = 30) -> Graph:
    stream = torch.Generator().manual_seed(0)
    ends = torch.randint(count, (2, 60), generator=stream)
    features = (torch.rand(count, 12, generator=stream) > 0.5).float()
    at = torch.arange(count)
    split = Split(at < 15, (at >= 15) & (at < 20), at >= 20)
    return Graph("g", features, undirected(ends, count), at % 3, split, num_classes=3)


def trainer(network: PublicGat) -> PublicGatTrainer:
    weights = network.initial(torch.Generator().manual_seed(1))
    return PublicGatTrainer(network, weights, lr=0.02, weight_decay=0.0)


def test_logits_are_those_of_the_plain_gat() -> None:
    network, reference = PublicGat(graph(), 8, 4, CPU), Gat(graph(), 8, 4, False, CPU)
    weights = network.initial(torch.Generator().manual_seed(1))
    hidden = network.hidden(weights)
    assert torch.allclose(network.scores(hidden, weights), reference.logits(weights), atol=1e-6)


def test_the_pull_turns_the_hidden_rows() -> None:
    network, nodes = PublicGat(graph(), 8, 4, CPU), torch.arange(10)
    towards = torch.randn(10, 8, generator=torch.Generator().manual_seed(2))
    cosine_by_beta = {}
    for beta in (0.0, 1.0):
        own_trainer = trainer(network)
        labels = graph().labels[:15]
        stream = torch.Generator().manual_seed(3)
        own_trainer.train(60, torch.arange(15), labels, Pull(nodes, towards, beta), 0.0, stream)
        cosine_by_beta[beta] = cosine_similarity(
            network.hidden(own_trainer.weights)[nodes], towards
        ).mean()
    assert cosine_by_beta[1.0] > cosine_by_beta[0.0] + 0.2


def test_training_goes_on_from_a_stored_state() -> None:
    network = PublicGat(graph(), 8, 4, CPU)
    whole, first, second = trainer(network), trainer(network), trainer(network)
    nodes, labels = torch.arange(15), graph().labels[:15]

    def train(one: PublicGatTrainer, seed: int) -> None:
        one.train(3, nodes, labels, None, 0.5, torch.Generator().manual_seed(seed))

    train(whole, 0), train(whole, 1), train(first, 0)
    second.restore(first.state())
    train(second, 1)
    assert torch.equal(whole.state()["weights"], second.state()["weights"])


def test_without_edges_a_row_depends_on_the_nodes_own_features() -> None:
    whole, part = graph(), graph().subgraph(torch.arange(10))
    rows = []
    for one in (whole, part):
        network = PublicGat(one, 8, 4, CPU)
        weights = network.initial(torch.Generator().manual_seed(1))
        rows.append(network.hidden_without_edges(weights)[:10])
    assert torch.allclose(rows[0], rows[1], atol=1e-6)
