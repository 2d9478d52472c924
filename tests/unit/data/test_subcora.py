"""subCora on a made-up citation graph: the paper's conditions hold, and the seed draws it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from securefg.data.drawn_graphs import draw_subcora
from securefg.data.graph import Graph, Split, undirected
from securefg.foundation.errors import ConfigError
from securefg.settings.data import DataSettings, SubCoraSettings

SMALL = SubCoraSettings(
    num_nodes=60, drawn_nodes=70, least_train=8, most_train=16, class_spread=2.5
)


def citations(num_nodes: int = 240) -> Graph:
    stream = torch.Generator().manual_seed(0)
    edges = torch.randint(num_nodes, (2, 2 * num_nodes), generator=stream)
    none = torch.zeros(num_nodes, dtype=torch.bool)
    return Graph(
        name="cora",
        features=torch.arange(num_nodes)[:, None].float(),
        edge_index=undirected(edges, num_nodes),
        labels=torch.arange(num_nodes) % 3,
        split=Split(none, none, none),
        num_classes=3,
    )


def hops_from(graph: Graph, start: torch.Tensor) -> torch.Tensor:
    reached, hops = start.clone(), torch.where(start, 0, 99)
    for step in range(1, 10):
        target = graph.edge_index[1][reached[graph.edge_index[0]]]
        new = torch.zeros_like(reached)
        new[target] = True
        hops[new & ~reached] = step
        reached = reached | new
    return hops


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_conditions_hold(seed: int) -> None:
    cora = citations()
    drawn = draw_subcora(cora, SMALL, seed)
    train, val, test = drawn.split.sizes
    assert drawn.num_nodes == 60 == train + val + test
    assert 8 <= train <= 16
    assert val == train
    counts = torch.bincount(drawn.labels[drawn.split.train], minlength=3)
    assert counts.min() > 0
    assert np.std(counts.numpy()) <= 2.5
    inside = drawn.subgraph(drawn.split.train.nonzero().flatten())
    assert int((hops_from(inside, torch.arange(train) == 0) == 99).sum()) == 0
    whole = torch.zeros(240, dtype=torch.bool)
    whole[drawn.features[drawn.split.train].long().flatten()] = True
    hops = hops_from(cora, whole)
    assert int(hops[drawn.features[drawn.split.val].long().flatten()].max()) <= 2
    tested = drawn.features[drawn.split.test].long().flatten()
    left = sorted(set(range(240)) - set(drawn.features.long().flatten().tolist()))
    assert int(hops[tested].max()) <= max(2, int(hops[left].min()))


def test_the_seed_draws_the_subgraph() -> None:
    cora = citations()
    nodes = [draw_subcora(cora, SMALL, seed).features.flatten() for seed in (1, 1, 2)]
    assert torch.equal(nodes[0], nodes[1])
    assert not torch.equal(nodes[0], nodes[2])


def test_test_nodes_can_come_from_anywhere() -> None:
    anywhere = SMALL.model_copy(update={"test_from": "anywhere"})
    drawn = draw_subcora(citations(), anywhere, 0)
    assert drawn.num_nodes == 60
    assert not torch.equal(drawn.features, draw_subcora(citations(), SMALL, 0).features)


def test_conditions_that_no_draw_meets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("securefg.data.drawn_graphs.MAX_TRIES", 50)
    strict = SMALL.model_copy(update={"class_spread": 0.0, "least_train": 16, "most_train": 16})
    with pytest.raises(ConfigError, match="had a component of 16 to 16 nodes"):
        draw_subcora(citations(40), strict.model_copy(update={"drawn_nodes": 20}), 0)


def test_settings_are_filled_in_and_go_with_their_name() -> None:
    assert DataSettings(name="subcora").subcora == SubCoraSettings()
    with pytest.raises(
        ValidationError,
        match=r"subcora: found settings with name 'cora'; expected .*`name: subcora`",
    ):
        DataSettings(name="cora", subcora=SubCoraSettings())
    with pytest.raises(
        ValidationError, match=r"most_train: found 50 with least_train 30; expected .* to 49, "
    ):
        SubCoraSettings(num_nodes=100, most_train=50)
