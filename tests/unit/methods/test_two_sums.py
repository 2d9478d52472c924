"""What one node moves, by brute force; the sums, the head, and whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from securefg.data.graph import Graph, Split, undirected
from securefg.federation.evaluation import area_under_curve
from securefg.foundation.errors import ConfigError
from securefg.methods.two_sums import features
from securefg.methods.two_sums.features import (
    class_sums,
    moments_of,
    moved_by_node,
    neighbour_moves,
    pack_moments,
    rows_of,
    unpack_moments,
)
from securefg.methods.two_sums.settings import Settings
from securefg.models.discriminant import (
    Moments,
    class_scores,
    is_clear,
    solve_discriminant,
    solve_head,
)
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests.small import CSBM

# --------------------------------------------------------------------------- the referee


def random_graph(rng: np.random.Generator) -> Graph:
    """With a hub, with nodes that do not train, and with features that often agree."""
    count, classes = int(rng.integers(6, 20)), int(rng.integers(2, 5))
    pairs = rng.integers(count, size=(2, int(rng.integers(1, 5 * count))))
    hub = np.stack([np.zeros(count, int), np.arange(count)])
    edges = np.concatenate([pairs, hub[:, rng.random(count) < rng.random()]], 1)
    train = torch.from_numpy(rng.random(count) < rng.choice([0.4, 1.0]))
    labels = rng.integers(classes, size=count) * (rng.random(count) < rng.random())
    looks = rng.normal(size=(count, 6)) * (rng.random() < 0.5) + rng.normal(size=6)
    return Graph(
        name="random",
        features=torch.from_numpy(looks).float(),
        edge_index=undirected(torch.from_numpy(edges), count),
        labels=torch.from_numpy(labels),
        split=Split(train, ~train, ~train),
        num_classes=classes,
    )


def without_node(graph: Graph, node: int) -> Graph:
    return graph.subgraph(torch.tensor([v for v in range(graph.num_nodes) if v != node]))


def without_edge(graph: Graph, edge: int) -> Graph:
    u, v = graph.edge_index[:, edge].tolist()
    gone = ((graph.edge_index == u) | (graph.edge_index == v)).all(0)
    return replace(graph, edge_index=graph.edge_index[:, ~gone])


def second_sum(graph: Graph, projection: Tensor | None, settings: Settings) -> Tensor:
    return pack_moments(moments_of(graph, rows_of(graph, projection, settings)))


def drawn_settings(rng: np.random.Generator) -> Settings:
    return Settings(
        scale=float(rng.choice([0.1, 0.5, 1.0, 4.0])), narrow=0, graph=bool(rng.random() < 0.9)
    )


def removals(seed: int) -> list[tuple[float, float]]:
    """For every node of a graph: by how much its removal moves the second sum, over S(k)."""
    rng = np.random.default_rng(seed)
    graph, settings = random_graph(rng), drawn_settings(rng)
    projection = torch.from_numpy(rng.normal(size=(6, graph.num_classes)) * rng.choice([0.3, 3]))
    whole, first = second_sum(graph, projection, settings), class_sums(graph)
    degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    distances = []
    for node in range(graph.num_nodes):
        rest = without_node(graph, node)
        moved = (whole - second_sum(rest, projection, settings)).norm()
        second = float(moved) / moved_by_node(settings, int(degrees[node]))
        distances.append((float((first - class_sums(rest)).norm()), second))
    return distances


@pytest.mark.parametrize("seed", range(60))
def test_no_removal_of_a_node_moves_the_sums_further_than_claimed(seed: int):
    for first, second in removals(seed):
        assert first <= 1 + 1e-9
        assert second <= 1 + 1e-9


def test_the_bound_is_not_far_from_what_happens():
    """Else a slip that makes S(k) larger than needed would cost noise and never show."""
    largest = max(second for seed in range(100) for _, second in removals(seed))
    assert largest > 0.75


@pytest.mark.parametrize("seed", range(20))
def test_no_removal_of_an_edge_moves_the_second_sum_further_than_claimed(seed: int):
    rng = np.random.default_rng(seed)
    graph, settings = random_graph(rng), drawn_settings(rng)
    projection = torch.from_numpy(rng.normal(size=(6, graph.num_classes)))
    whole = second_sum(graph, projection, settings)
    for edge in range(graph.edge_index.shape[1]):
        moved = (whole - second_sum(without_edge(graph, edge), projection, settings)).norm()
        assert float(moved) <= 2 * neighbour_moves(settings) + 1e-9


def test_the_referee_catches_a_divisor_that_follows_the_degree(monkeypatch: pytest.MonkeyPatch):
    """The mean over neighbours, as in every GNN, is what the proof does not cover."""

    def mean_rows(graph: Graph, projection: Tensor | None, settings: Settings) -> Tensor:
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).clamp_min(1)
        source, target = graph.edge_index
        labels = features.known_labels(graph)
        met = torch.zeros_like(labels).index_add_(0, target, labels[source]) / degree[:, None]
        return torch.cat([met, torch.full((graph.num_nodes, 1), 0.5)], 1) / math.sqrt(1.25)

    monkeypatch.setitem(globals(), "rows_of", mean_rows)
    monkeypatch.setitem(globals(), "drawn_settings", lambda rng: Settings(scale=4.0, narrow=0))
    assert max(second for seed in range(60) for _, second in removals(seed)) > 1


# ----------------------------------------------------------------------- sums and the head


def test_packing_keeps_the_distance_and_comes_back():
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 5, generator=rng, dtype=torch.float64)
    labels = torch.randn(9, 3, generator=rng, dtype=torch.float64)
    moments = Moments(rows.T @ rows, rows.T @ labels)
    vector = pack_moments(moments)
    assert torch.isclose(
        vector.norm() ** 2, moments.second.norm() ** 2 + moments.by_class.norm() ** 2
    )
    back = unpack_moments(vector, 5)
    assert torch.allclose(back.second, moments.second)
    assert torch.allclose(back.by_class, moments.by_class)


def test_the_head_is_linear_discriminant_analysis():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    data = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4)) + np.eye(4)[labels]
    phi = torch.from_numpy(np.concatenate([data, np.full((400, 1), 0.5)], 1))
    hot = torch.from_numpy(np.eye(3)[labels])
    moments = Moments(phi.T @ phi, phi.T @ hot)
    weights, offsets = solve_discriminant(moments, 0.5, noise=0.0, ridge=1e-6)
    ours = (phi @ weights + offsets).argmax(1).numpy()
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(data, labels).predict(data)
    assert (ours == theirs).mean() > 0.99


def test_the_head_is_regression_where_noise_is_near_the_signal():
    rng = torch.Generator().manual_seed(0)
    rows = torch.cat([torch.randn(400, 4, generator=rng), torch.full((400, 1), 0.5)], 1).double()
    labels = torch.nn.functional.one_hot((rows[:, 0] > 0).long(), 2).double()
    moments = Moments(rows.T @ rows, rows.T @ labels)
    assert is_clear(moments, 0.5, noise=1.0)
    assert not is_clear(moments, 0.5, noise=20.0)
    weights, offsets = solve_head(moments, 0.5, noise=20.0, clear=False)
    lam = 2 * 20.0 * math.sqrt(5) + 1
    by_hand = 2 * torch.linalg.inv(moments.second + lam * torch.eye(5).double()) @ moments.by_class
    assert torch.allclose(weights, by_hand)
    assert not bool(offsets.any())
    right = (rows @ weights + offsets).argmax(1) == labels.argmax(1)
    assert float(right.double().mean()) > 0.8


def test_noise_alone_gives_no_class_scores():
    noise = 5.0
    sums = noise * torch.randn(400, 4, generator=torch.Generator().manual_seed(0)).double()
    sums[:4] = 900.0 * torch.eye(4)
    scores = class_scores(sums, noise, rates=True)
    size = scores.norm(dim=1)
    assert float(size[4:].max()) < 0.5 * float(size[:4].min())
    assert float(size[4:].median()) < 0.05 * float(size[:4].min())


def test_sums_without_any_signal_are_solved_without_a_fault():
    nothing = Moments(torch.zeros(4, 4).double(), torch.zeros(4, 2).double())
    weights, offsets = solve_discriminant(nothing, 0.5, noise=10.0)
    assert bool(torch.isfinite(weights).all())
    assert bool(torch.isfinite(offsets).all())
    assert bool(torch.isfinite(class_scores(torch.zeros(5, 2).double(), 1.0, rates=True)).all())


# ------------------------------------------------------------------------------ whole runs

PRIVATE = {
    "mechanism": "distributed_discrete",
    "target_epsilon": 4,
    "unit": "node",
    "noise_rng": "seeded",
    "secure_aggregation": {"dropout": 0, "corrupt": 0},
}


def tree(root: Path, **changed) -> dict:
    config_tree = {
        "method": {"name": "two_sums", "links": 8, "narrow": 8, "encoding": "sums"},
        "data": {"name": "csbm", "csbm": {**CSBM, "num_nodes": 300, "train_share": 0.5}},
        "partition": {"name": "random", "num_clients": 4},
        "training": {"rounds": 1, "patience": None, "final_model": "last"},
        "output": {"root": str(root), "transcript_every": 1},
    }
    return {**config_tree, **changed}


def summary_of(given: dict, *overrides: str):
    return runner.start(parse_config(given, overrides)).summary


def test_a_run_spends_its_epsilon_on_two_sums_and_says_whom_it_covers(tmp_path: Path):
    summary = summary_of(tree(tmp_path, privacy=PRIVATE))
    node = summary.epsilon["node"]
    assert node.epsilon == pytest.approx(4, abs=0.01)
    assert node.holders == 1
    at = {line.whose: line.epsilon for line in node.by_links}
    assert at["covered"] == pytest.approx(node.epsilon)
    assert at["median"] < at["largest"] < at["covered"]
    assert set(summary.masked) == {"ClassSums.sums", "Products.products"}


def test_a_run_without_noise_promises_nothing_and_is_as_good_as_all_data_in_one_hand(
    tmp_path: Path,
):
    apart = summary_of(tree(tmp_path))
    together = summary_of(tree(tmp_path), "partition.num_clients=1")
    assert apart.epsilon["node"].epsilon is None
    assert apart.test_accuracy > 0.6
    # The sums are the same but for the edges between clients.
    assert abs(apart.test_accuracy - together.test_accuracy) < 0.2


def test_exact_sums_under_masks_are_the_sums_without_masks(tmp_path: Path):
    """Sums over a few dozen nodes pass 16, the usual bound of a masked number."""
    masks = {"secure_aggregation": {"dropout": 0, "corrupt": 0}}
    plain = summary_of(tree(tmp_path, name="plain"))
    masked = summary_of(tree(tmp_path, name="masked", privacy=masks))
    assert masked.masked["Products.products"]["value_bound"] == pytest.approx(300 * 2**0.5)
    assert masked.test_accuracy == plain.test_accuracy
    assert masked.val_loss == pytest.approx(plain.val_loss, abs=1e-3)


def test_two_classes_have_an_area_under_the_curve(tmp_path: Path):
    folder = runner.start(parse_config(tree(tmp_path))).folder
    (line,) = folder.metrics()
    assert 0.6 < line["extra"]["test_auc"] <= 1


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order():
    margins, labels = torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])
    assert area_under_curve(margins, labels) == 0.75
    assert area_under_curve(torch.zeros(4), labels) == 0.5
    assert area_under_curve(margins, torch.ones(4)) == 0.5


def test_features_alone_hide_all_links(tmp_path: Path):
    summary = summary_of(tree(tmp_path, privacy=PRIVATE), "method.graph=false")
    assert summary.epsilon["edge"].epsilon == 0
    covered = {line.epsilon for line in summary.epsilon["node"].by_links}
    assert len({round(epsilon, 9) for epsilon in covered}) == 1


def test_a_node_held_twice_costs_more(tmp_path: Path):
    overlapping = {"name": "shares", "shares": [0.6, 0.6, 0.6, 0.6]}
    noise = {**PRIVATE, "target_epsilon": None, "noise_multiplier": 3.0}
    once = summary_of(tree(tmp_path, privacy=noise)).epsilon["node"]
    often = summary_of(tree(tmp_path, privacy=noise, partition=overlapping)).epsilon["node"]
    assert often.holders > 1
    assert often.epsilon > once.epsilon


def test_clients_alone_send_nothing(tmp_path: Path):
    given = tree(tmp_path)
    given["method"] = {**given["method"], "name": "own_sums"}
    summary = summary_of(given)
    assert summary.bytes.up.payload < 200
    assert summary.epsilon["node"].epsilon == 0
    assert summary.test_accuracy > 0.5


def test_a_second_round_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"training\.rounds: 2; allowed for two_sums: 1"):
        summary_of(tree(tmp_path), "training.rounds=2")


def test_nodes_with_several_samples_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="one sample per node"):
        summary_of(tree(tmp_path), "data.csbm={task: snc}", "partition.num_clients=2")
