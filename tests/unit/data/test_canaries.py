"""Canaries: what they look like, what an absent one leaves behind, and who holds them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.data.canaries import Canaries, draw_canaries, with_canaries
from securefg.data.graph import Graph, Split, undirected
from securefg.foundation.errors import ConfigError
from securefg.runs.assembly import prepare
from securefg.settings.config import parse_config
from securefg.settings.execution import AuditSettings
from tests import small

NODES, WORDS, CANARIES = 60, 90, 12


def _words(classes: int = 3) -> Graph:
    stream = torch.Generator().manual_seed(0)
    often = torch.linspace(0.01, 0.3, WORDS)
    features = (torch.rand(NODES, WORDS, generator=stream) < often).float()
    ends = torch.randint(NODES, (2, 150), generator=stream)
    labels = torch.arange(NODES) % classes
    masks = torch.arange(NODES) % 3
    return Graph(
        name="words",
        features=features,
        edge_index=undirected(ends, NODES),
        labels=labels,
        split=Split(masks == 0, masks == 1, masks == 2),
        num_classes=classes,
    )


def _drawn(graph: Graph, seed: int = 0, **settings: int) -> Canaries:
    return draw_canaries(graph, AuditSettings(**{"canaries": CANARIES, **settings}), seed)


def test_a_canary_has_rare_words_of_its_own_and_a_usual_length() -> None:
    graph = _words()
    canaries = _drawn(graph)
    used = (canaries.features > 0).float()
    frequency = graph.features.sum(0)
    assert used.sum(0).max() == 1  # no word in two canaries
    assert (used @ frequency / used.sum(1)).max() < frequency.mean()
    lengths = canaries.features.norm(dim=1)
    torch.testing.assert_close(lengths, graph.features.norm(dim=1).median().expand(CANARIES))


def test_a_canarys_label_is_none_of_its_neighbours() -> None:
    graph = _words()
    found = _drawn(graph)
    assert (graph.labels[found.neighbours] != found.labels[:, None]).all()


def test_one_that_is_out_leaves_an_empty_node() -> None:
    graph = _words()
    found = _drawn(graph)
    whole = with_canaries(graph, found)
    absent = found.nodes[~found.inside]
    assert 0 < len(absent) < CANARIES
    assert not torch.isin(whole.edge_index, absent).any()
    assert (whole.features[absent] == 0).all()
    assert not (whole.split.train | whole.split.val | whole.split.test)[absent].any()
    assert (whole.labels[absent] == 0).all()


def test_one_that_is_in_trains_with_its_edges() -> None:
    graph = _words()
    canaries = _drawn(graph)
    whole = with_canaries(graph, canaries)
    present = canaries.nodes[canaries.inside]
    assert whole.split.train[present].all()
    assert not (whole.split.val | whole.split.test)[present].any()
    assert torch.equal(whole.labels[present], canaries.labels[canaries.inside])
    for node, near in zip(present, canaries.neighbours[canaries.inside], strict=True):
        assert set(whole.edge_index[1][whole.edge_index[0] == node].tolist()) == set(near.tolist())
    assert torch.equal(whole.edge_index, undirected(whole.edge_index, whole.num_nodes))


def test_all_other_nodes_stay_as_they_are() -> None:
    graph = _words()
    whole = with_canaries(graph, _drawn(graph)).subgraph(torch.arange(NODES))
    assert torch.equal(whole.edge_index, graph.edge_index)
    assert torch.equal(whole.features, graph.features)
    assert whole.split.sizes == graph.split.sizes


def test_runs_of_other_seeds_have_the_same_canaries_with_other_coins() -> None:
    graph = _words()
    first, second, again = _drawn(graph), _drawn(graph, seed=1), _drawn(graph, seed=0)
    assert torch.equal(first.inside, again.inside)
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.neighbours, second.neighbours)
    assert not torch.equal(first.inside, second.inside)


def test_the_coins_are_fair() -> None:
    graph = _words()
    heads = sum(int(_drawn(graph, seed=s).inside.sum()) for s in range(60))
    assert abs(heads / (60 * CANARIES) - 0.5) < 3 * 0.5 / (60 * CANARIES) ** 0.5


def test_the_coins_do_not_print() -> None:
    assert repr(_drawn(_words())) == f"Canaries({CANARIES})"


@pytest.mark.parametrize("partition", ["shares", "one_node", "louvain", "dirichlet"])
def test_canaries_are_dealt_out_like_any_node(tmp_path: Path, partition: str) -> None:
    tree = small.tree(tmp_path)
    tree["partition"] = {"name": partition}
    if partition in ("louvain", "dirichlet"):
        tree["partition"]["num_clients"] = 3
    tree["audit"] = {"canaries": 20}
    experiment = prepare(parse_config(tree))
    nodes = small.CSBM["num_nodes"]
    assert experiment.public.num_nodes == nodes + 20
    held = torch.isin(experiment.canaries.nodes, experiment.partition.nodes)
    assert held.all() if partition != "shares" else held.float().mean() > 0.7
    if partition == "one_node":
        inside = experiment.canaries.inside
        trains = torch.stack([shard.graph.split.train.any() for shard in experiment.shards[nodes:]])
        assert torch.equal(trains, inside)


def test_a_config_without_canaries_keeps_its_hash(tmp_path: Path) -> None:
    plain = parse_config(small.tree(tmp_path))
    none = parse_config(small.tree(tmp_path), ["audit.canaries=0", "audit.seed=7"])
    some = parse_config(small.tree(tmp_path), ["audit.canaries=5"])
    other = parse_config(small.tree(tmp_path), ["audit.canaries=5", "audit.seed=7"])
    assert plain.hash == none.hash
    assert len({plain.hash, some.hash, other.hash}) == 3


def test_nodes_with_several_samples_are_refused(tmp_path: Path) -> None:
    tree = small.tree(tmp_path)
    tree["data"]["csbm"] = {"task": "snc", "samples_per_node": 3, "num_nodes": 40}
    tree["audit"] = {"canaries": 5}
    with pytest.raises(ConfigError, match=r"audit.canaries: 5.*several samples each; allowed: 0"):
        prepare(parse_config(tree))


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="all labels of 'words' are alike"):
        _drawn(_words(classes=1))


def test_a_negative_count_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"audit.canaries"):
        parse_config(small.tree(tmp_path), ["audit.canaries=-1"])
