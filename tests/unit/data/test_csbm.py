from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from securefg.data.drawn_graphs import _triangle_pair, draw_csbm, is_connected
from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError
from securefg.settings.data import CsbmSettings


def settings(**given) -> CsbmSettings:
    return CsbmSettings.model_validate(given)


def adjacency(graph: Graph) -> csr_array:
    matrix = np.zeros((graph.num_nodes, graph.num_nodes), dtype=bool)
    matrix[tuple(graph.edge_index.numpy())] = True
    return csr_array(matrix)


@pytest.mark.parametrize("task", ["dnc", "snc"])
@pytest.mark.parametrize("seed", range(3))
def test_the_training_set_is_connected_and_balanced(task: str, seed: int):
    graph = draw_csbm(settings(task=task, topology_seed=seed), seed=0)
    train = graph.split.train.numpy()
    assert is_connected(adjacency(graph)[np.ix_(train, train)])
    assert torch.bincount(graph.labels[graph.split.train]).tolist() == [10, 10]
    assert graph.split.sizes == (20, 20, 160)


def test_the_tasks_have_the_papers_shapes():
    shapes = {}
    for task in ("dnc", "snc", "sc"):
        graph = draw_csbm(settings(task=task), seed=0)
        shapes[task] = (tuple(graph.features.shape), tuple(graph.labels.shape))
    assert shapes == {
        "dnc": ((200, 100), (200,)),
        "snc": ((200, 40, 100), (200,)),
        "sc": ((50, 120, 100), (50, 120)),
    }


def test_sc_is_connected_and_splits_every_nodes_samples():
    graph = draw_csbm(settings(task="sc"), seed=0)
    assert is_connected(adjacency(graph))
    for part, count in zip((graph.split.train, graph.split.val), (10, 10), strict=True):
        assert part.sum(1).unique().tolist() == [count]
    assert graph.split.test.sum(1).unique().tolist() == [100]


def test_sc_labels_agree_with_the_tag_seven_times_in_ten():
    graph = draw_csbm(settings(task="sc", samples_per_node=1000, num_features=1), seed=0)
    rate = graph.labels.float().mean(1)
    agreement = torch.maximum(rate, 1 - rate)
    # 50 means of 1000 draws: 0.1 is seven standard deviations.
    assert float((agreement - 0.7).abs().max()) < 0.1


def test_another_seed_redraws_the_features_only():
    first, second = (draw_csbm(settings(), seed=seed) for seed in (0, 1))
    assert torch.equal(first.edge_index, second.edge_index)
    assert torch.equal(first.split.train, second.split.train)
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.features, second.features)


def test_another_topology_seed_redraws_the_graph():
    first, second = (draw_csbm(settings(topology_seed=seed), seed=0) for seed in (0, 1))
    assert not torch.equal(first.edge_index, second.edge_index)


def test_edges_follow_c_in_and_c_out():
    graph = draw_csbm(settings(num_nodes=2000, degree=9, graph_signal=2), seed=0)
    source, target = graph.edge_index
    same = int((graph.labels[source] == graph.labels[target]).sum())
    across = graph.edge_index.shape[1] - same
    # c_in / 2 = 7.5 and c_out / 2 = 1.5 of a node's neighbours; five standard deviations.
    assert same / 2000 == pytest.approx(7.5, abs=5 * (2 * 7.5 / 2000) ** 0.5)
    assert across / 2000 == pytest.approx(1.5, abs=5 * (2 * 1.5 / 2000) ** 0.5)


def test_features_have_the_signal_and_the_noise_of_the_formula():
    mu, num_nodes, p = 400.0, 400, 200
    graph = draw_csbm(settings(num_nodes=num_nodes, mu=mu, num_features=p), seed=0)
    signs = (2 * graph.labels - 1).float()
    u = (signs[:, None] * graph.features).mean(0) / (mu / num_nodes) ** 0.5
    noise = graph.features - (mu / num_nodes) ** 0.5 * signs[:, None] * u
    assert float(noise.std()) == pytest.approx(p**-0.5, rel=0.02)
    assert float(u.norm()) == pytest.approx(1, rel=0.3)


def test_a_graph_that_cannot_be_connected_is_refused():
    with pytest.raises(
        ConfigError, match=r"data\.csbm: no graph of .* was connected.*raise degree"
    ):
        draw_csbm(settings(task="sc", degree=0.1, graph_signal=0), seed=0)


def test_a_large_graph_is_drawn_by_its_edges_from_the_same_law(monkeypatch: pytest.MonkeyPatch):
    asked = settings(num_nodes=3000, degree=10, graph_signal=2, num_features=2)

    def law(graph: Graph) -> tuple[float, float]:
        source, target = graph.edge_index
        same = graph.labels[source] == graph.labels[target]
        return graph.edge_index.shape[1] / graph.num_nodes, float(same.double().mean())

    dense = law(draw_csbm(asked, seed=0))
    monkeypatch.setattr("securefg.data.drawn_graphs.DENSE_NODES", 1000)
    graph = draw_csbm(asked, seed=0)
    degree, same = law(graph)
    # 15 000 edges: 0.4 of a degree and 0.02 of agreement are five standard deviations each.
    assert abs(degree - 10) < 0.4
    assert abs(dense[0] - degree) < 0.6
    assert abs(same - (1 + 2 / 10**0.5) / 2) < 0.02
    assert torch.bincount(graph.labels[graph.split.train]).tolist() == [150, 150]
    assert not (graph.edge_index[0] == graph.edge_index[1]).any()


def test_pairs_are_numbered_once_each_however_large():
    rows, columns = _triangle_pair(np.arange(4950))
    assert {(r, c) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)} == {
        (r, c) for r in range(100) for c in range(r)
    }
    edge = 94_906_265 * np.arange(1, 4)
    ends = edge * (edge - 1) // 2  # where the square root of a float is off by one
    rows, columns = _triangle_pair(np.concatenate([ends - 1, ends]))
    assert rows.tolist() == [*(edge - 1), *edge]
    assert columns.tolist() == [*(edge - 2), 0, 0, 0]
