"""The prior of whoever knows the graph, and who that is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from audits.games import kriging
from audits.games.kriging import known_apart, krige_rows, walk_kernel
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

RNG = np.random.default_rng(5)
NODES = 200
CLASS = np.arange(NODES) % 4


def links() -> np.ndarray:
    """Mostly within a class."""
    chance = np.where(CLASS[:, None] == CLASS, 0.08, 0.004)
    return np.array(np.nonzero(np.triu(RNG.random((NODES, NODES)) < chance, 1)))


EDGES = links()
ROWS = np.eye(4)[CLASS] @ RNG.standard_normal((4, 30)) + 0.5 * RNG.standard_normal((NODES, 30))
KNOWN, WANTED = np.arange(60), np.arange(60, NODES)


def error(guess: np.ndarray, nodes: np.ndarray) -> float:
    return float(np.square(guess - ROWS[nodes]).mean())


def test_neighbours_tell_more_than_the_mean() -> None:
    with_graph = krige_rows(ROWS[KNOWN], KNOWN, WANTED, EDGES, NODES)
    without = krige_rows(ROWS[KNOWN], KNOWN, WANTED, None, NODES)
    assert error(with_graph.wanted, WANTED) < 0.8 * error(without.wanted, WANTED)
    assert np.allclose(without.wanted, ROWS[KNOWN].mean(0))


def test_a_graph_that_has_nothing_to_do_with_the_rows_leaves_the_mean() -> None:
    shuffled = RNG.permutation(NODES)[EDGES]
    found = krige_rows(ROWS[KNOWN], KNOWN, WANTED, shuffled, NODES)
    without = krige_rows(ROWS[KNOWN], KNOWN, WANTED, None, NODES)
    assert error(found.wanted, WANTED) < 1.02 * error(without.wanted, WANTED)


def test_known_rows_are_foretold_without_themselves() -> None:
    found = krige_rows(ROWS[KNOWN], KNOWN, WANTED, EDGES, NODES)
    one = krige_rows(ROWS[KNOWN[1:]], KNOWN[1:], KNOWN[:1], EDGES, NODES)
    assert np.abs(found.known[0] - one.wanted[0]).max() < 0.3 * ROWS.std()
    assert error(found.known, KNOWN) > 0.5 * error(found.wanted, WANTED)


def test_a_graph_too_large_to_walk_is_cut_around_the_nodes() -> None:
    nodes = np.concatenate([KNOWN, WANTED[:10]])
    whole = walk_kernel(nodes, EDGES, NODES)
    assert np.linalg.eigvalsh(whole).min() > 0
    large = np.concatenate([EDGES, EDGES + NODES], 1)  # a second part that no walk reaches
    assert np.allclose(walk_kernel(nodes, large, 2 * NODES), whole)
    assert len(kriging._nodes_around(nodes, EDGES, 10**6)) <= NODES


def test_known_nodes_are_never_wanted() -> None:
    found = known_apart(np.arange(100), np.arange(50), np.random.default_rng(0))
    assert len(found) == 30
    assert found.min() >= 50


def truth_of(root: Path, method: str) -> Truth:
    tree = small.tree(root, method)
    tree["training"]["rounds"] = 1
    if method == "nfedgnn":
        tree["partition"] = {"name": "one_node"}
    return Truth.of(runner.start(parse_config(tree)).folder)


def test_the_graph_is_known_to_those_who_are_given_it(tmp_path: Path) -> None:
    given = truth_of(tmp_path / "given", "nfedgnn")
    public = given.experiment.public.edge_index
    assert public is not None
    for who in ("server", "client:0"):
        assert np.array_equal(known_edges(given, Adversary.parse(who)), public.numpy())
    assert known_edges(given, Adversary.parse("outsider")) is None
    kept = truth_of(tmp_path / "kept", "fedgl")
    assert known_edges(kept, Adversary.parse("server")) is None
    assert known_edges(kept, Adversary.parse("wire")) is None
    own_edges = known_edges(kept, Adversary.parse("client:0"))
    shard = kept.experiment.shards[0]
    assert own_edges is not None
    assert own_edges.shape == shard.graph.edge_index.shape
    assert np.isin(own_edges, shard.node_ids.numpy()).all()
