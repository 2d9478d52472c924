"""Features of edges: kept beside their edges from tables to shards, and read by networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import securefg
from securefg.data.datasets import load
from securefg.data.graph import Graph, Split, both_ways, undirected
from securefg.data.partition import Partition
from securefg.data.shard import load_shards, save_shards, shards, union_graph
from securefg.data.tabular.prepare import describe_prepared, prepared, write_prepared
from securefg.data.tabular.transfers import link_features, mirrored_entries
from securefg.foundation.errors import ConfigError, DataError
from securefg.runs.fingerprints import of_shard
from securefg.settings.data import DataSettings, SplitSettings
from securefg.settings.tables import TransferRule, table_settings

N = 30
MIRRORED = torch.tensor([1, 0])


def drawn(seed: int = 0) -> Graph:
    """A graph whose edge (a, b) carries (a, b) as its numbers."""
    stream = torch.Generator().manual_seed(seed)
    ends = torch.randint(N, (2, 80), generator=stream)
    edges, numbers = both_ways(ends, ends.T.float(), MIRRORED, N)
    half = torch.arange(N) % 2 == 0
    return Graph(
        name="made",
        features=torch.randn(N, 3, generator=stream),
        edge_index=edges,
        labels=torch.arange(N) % 2,
        split=Split(half, ~half, ~half),
        num_classes=2,
        edge_features=numbers,
    )


def numbered(graph: Graph, ids: torch.Tensor) -> bool:
    """Whether every edge still carries the ids of its ends."""
    assert graph.edge_features is not None
    return bool(torch.equal(ids[graph.edge_index].T.float(), graph.edge_features))


def test_both_directions_are_those_of_undirected_edges() -> None:
    graph = drawn()
    ends = torch.randint(N, (2, 80), generator=torch.Generator().manual_seed(0))
    assert torch.equal(graph.edge_index, undirected(ends, N))
    assert numbered(graph, torch.arange(N))


def test_edge_that_is_listed_both_ways_keeps_what_was_listed() -> None:
    ends, numbers = torch.tensor([[0, 1, 0], [1, 0, 0]]), torch.tensor([[1.0], [2.0], [3.0]])
    edges, found = both_ways(ends, numbers, torch.tensor([0]), 2)
    assert edges.tolist() == [[0, 1], [1, 0]]
    assert found.flatten().tolist() == [1.0, 2.0]


def test_features_stay_with_their_edges_in_every_part_of_the_graph(tmp_path: Path) -> None:
    graph = drawn()
    nodes = torch.randperm(N, generator=torch.Generator().manual_seed(1))[:20]
    assert numbered(graph.subgraph(nodes), nodes)
    kept = torch.arange(graph.edge_index.shape[1]) % 3 == 0
    assert numbered(graph.keep_edges(kept), torch.arange(N))
    held = torch.cat([torch.arange(0, 20), torch.arange(10, 30)])
    parts = shards(graph, Partition("two", N, held, torch.tensor([0, 20, 40])))
    assert all(numbered(part.graph, part.node_ids) for part in parts)
    union = union_graph(graph, Partition("two", N, held, torch.tensor([0, 20, 40])))
    assert numbered(union, torch.arange(N))
    save_shards(tmp_path / "s", parts)
    again = load_shards(tmp_path / "s")
    assert [of_shard(a) for a in again] == [of_shard(b) for b in parts]
    changed = parts[0].graph.edge_features
    assert changed is not None
    other = replace(parts[0], graph=replace(parts[0].graph, edge_features=changed + 1))
    assert of_shard(other) != of_shard(parts[0])


def test_other_edges_have_their_features_or_zeros() -> None:
    graph = drawn()
    missing = torch.tensor([[0], [0]])
    wider_graph = graph.with_edges(torch.cat([graph.edge_index.flip(1), missing], 1))
    assert wider_graph.edge_features is not None
    assert graph.edge_features is not None
    assert torch.equal(wider_graph.edge_features[:-1], graph.edge_features.flip(0))
    assert wider_graph.edge_features[-1].tolist() == [0, 0]


def test_features_of_other_edges_are_refused() -> None:
    graph = drawn()
    with pytest.raises(DataError, match="features of"):
        replace(graph, edge_index=graph.edge_index[:, 1:])


# ----------------------------------------------------------------------------------- from tables

RULE = "transfers: {amount: {amount: [0, 10]}, time: {day: [0, 50, 100]}, become: edges}\n"
RULED = TransferRule(amount={"amount": (0, 10)}, time={"day": (0.0, 50.0, 100.0)}, become="edges")
WIDTH = len(link_features(RULED))


@pytest.fixture
def banks(tmp_path: Path) -> Path:
    """Two banks of 100 accounts. Fraud is to receive a large amount on a late day."""
    rng, root = np.random.default_rng(0), tmp_path / "banks"
    fraud = rng.random(200) < 0.3
    drawn = []
    for _ in range(700):
        payer, payee = (int(a) for a in rng.integers(0, 200, 2))
        is_odd = bool(fraud[payee])
        amount = rng.uniform(2_000, 9_000) if is_odd else rng.uniform(1, 300)
        drawn.append(
            (
                payer,
                payee,
                round(float(amount), 2),
                int(rng.integers(60, 100) if is_odd else rng.integers(0, 60)),
            )
        )
    for bank in range(2):
        folder = root / f"bank{bank}"
        folder.mkdir(parents=True)
        own = range(100 * bank, 100 * bank + 100)
        rows = [f"A{n},{20 + n % 50},{'yes' if fraud[n] else 'no'}" for n in own]
        (folder / "nodes.csv").write_text("\n".join(["id,age,label", *rows]))
        seen = [f"A{a},A{b},{m},{d}" for a, b, m, d in drawn if a in own and b in own]
        (folder / "edges.csv").write_text("\n".join(["from,to,amount,day", *seen]))
    (root / "tables.yaml").write_text('classes: ["no", "yes"]\nrange: {age: [0, 100]}\n' + RULE)
    return root


def test_tables_with_amounts_and_days_become_features_of_edges(banks: Path, tmp_path: Path) -> None:
    made = prepared(banks, table_settings(banks))
    assert made.faults == ()
    assert made.features.shape[1] == 1  # nothing is summed into nodes
    assert f"edge_dim: {WIDTH}" in str(describe_prepared(made))
    write_prepared(made, tmp_path / "out")
    shares = SplitSettings(kind="shares", train_share=0.5, val_share=0.2)
    graph = load(DataSettings(name="folder", folder=tmp_path / "out", split=shares), 0)
    assert graph.num_edge_features == WIDTH
    assert graph.edge_features is not None
    assert float(graph.edge_features.min()) >= 0
    assert float(graph.edge_features.max()) <= 1
    there = {
        (a, b): row
        for (a, b), row in zip(graph.edge_index.T.tolist(), graph.edge_features, strict=True)
    }
    mirrored = torch.from_numpy(mirrored_entries(RULED))
    assert all(torch.equal(there[b, a], row[mirrored]) for (a, b), row in there.items())
    assert all(bool(row[0]) or bool(row[WIDTH // 2]) for row in there.values())


def test_edge_features_of_a_wrong_form_are_refused(banks: Path, tmp_path: Path) -> None:
    write_prepared(prepared(banks, table_settings(banks)), tmp_path / "out")
    path = tmp_path / "out" / "edge_features.npz"
    count = np.load(path)["edge_attr"].shape[0]
    for arrays, message_text in (
        ({"edge_attr": np.zeros((count - 1, 2))}, "a row per edge"),
        ({"edge_attr": np.zeros(count)}, r"wanted edge_attr \(E, k\)"),
        ({"edge_attr": np.full((count, 2), np.nan)}, "finite"),
        ({"edge_attr": np.zeros((count, 2)), "mirrored": np.array([0, 0])}, "every one of 0 to 1"),
        ({"rows": np.zeros(3)}, "found rows"),
    ):
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=message_text):
            load(DataSettings(name="folder", folder=tmp_path / "out"), 0)


def tree(folder: Path, **method: Any) -> dict[str, Any]:
    split = {"kind": "shares", "train_share": 0.5, "val_share": 0.2}
    return {
        "method": {"name": "fedavg", **method},
        "data": {"name": "folder", "folder": str(folder), "split": split},
        "partition": {"name": "given"},
        "training": {"rounds": 8, "local_epochs": 10, "lr": 0.1, "patience": None},
        "output": {"root": str(folder.parent / "runs")},
    }


def test_network_that_reads_edges_learns_what_only_transfers_tell(
    banks: Path, tmp_path: Path
) -> None:
    write_prepared(prepared(banks, table_settings(banks)), tmp_path / "out")
    scores = {}
    for name, arguments in (("with", {"edge_dim": WIDTH}), ("without", {})):
        network = "tests.unit.data.test_edge_features.Edges" if arguments else "GCN"
        config = tree(tmp_path / "out", network=network, arguments=arguments)
        found = securefg.run({**config, "name": name}).summary.test_scores
        assert found is not None
        assert found.roc_auc is not None
        scores[name] = found.roc_auc
    assert scores["with"] > 0.9
    assert scores["without"] < 0.75


class Edges(torch.nn.Module):
    """Sums what a linear layer makes of own columns and of all edges."""

    def __init__(self, num_features: int, num_classes: int, edge_dim: int) -> None:
        super().__init__()
        self.own = torch.nn.Linear(num_features, num_classes)
        self.from_edges = torch.nn.Linear(edge_dim, num_classes, bias=False)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor
    ) -> torch.Tensor:
        told = torch.zeros(len(x), edge_attr.shape[1]).index_add(0, edge_index[0], edge_attr)
        degree = torch.bincount(edge_index[0], minlength=len(x)).clamp_min(1)
        found: torch.Tensor = self.own(x) + self.from_edges(told / degree[:, None])
        return found


def test_gat_of_the_library_reads_edges(banks: Path, tmp_path: Path) -> None:
    write_prepared(prepared(banks, table_settings(banks)), tmp_path / "out")
    config = tree(tmp_path / "out", network="GAT", arguments={"edge_dim": WIDTH})
    config["training"]["rounds"] = 1
    assert securefg.run(config).summary.rounds == 1
    for wrong, said in ((3, f"expected {WIDTH}"), (0, "leaves the shape")):
        config["method"]["arguments"] = {"edge_dim": wrong}
        with pytest.raises(ConfigError, match=said):
            securefg.run(config)
    config["method"]["arguments"] = {"edge_dim": WIDTH}
    config["method"]["sampling"] = {"above": 10}
    with pytest.raises(ConfigError, match="sampled edges carry no features"):
        securefg.run(config)
