"""Sums over transfers as features: no link and no node moves the sums further than claimed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from securefg.data.graph import Graph, Split
from securefg.data.tabular import transfers
from securefg.data.tabular.prepare import prepared, write_prepared
from securefg.data.tabular.transfers import Sighting, link_features, sum_over_links
from securefg.foundation.errors import ConfigError
from securefg.methods.two_sums.features import (
    moments_of,
    moved_by_node,
    neighbour_moves,
    pack_moments,
    rows_of,
)
from securefg.methods.two_sums.settings import Settings
from securefg.runs.assembly import prepare
from securefg.runs.epsilons import not_covered, planned_epsilons
from securefg.settings.config import parse_config
from securefg.settings.tables import TransferRule, table_settings

RULE = TransferRule(amount={"amount": (0, 10)}, time={"day": (0, 10, 20, 30)})
WIDTH = len(link_features(RULE))
Transfer = tuple[int, int, float, int]


def sightings(drawn: list[Transfer]) -> list[Sighting]:
    seen_payments: list[Sighting] = []
    for payer, payee, amount, day in drawn:
        values = (amount, float(day))
        seen_payments += [(payer, str(payee), 0, values), (payee, str(payer), 1, values)]
    return seen_payments


def draw_transfers(rng: np.random.Generator, count: int) -> list[Transfer]:
    """With a hub, with pairs of very many transfers, and with amounts of any size."""
    ends = rng.integers(0, count, (int(rng.integers(1, 8 * count)), 2))
    ends[rng.random(len(ends)) < 0.3, 0] = 0
    sizes = 10.0 ** rng.uniform(-3, 9, len(ends))
    days = rng.integers(-5, 40, len(ends))
    listed = zip(ends.tolist(), sizes.tolist(), days.tolist(), strict=True)
    return [(a, b, size, day) for (a, b), size, day in listed if a != b]


class Case:
    """Accounts with transfers, and the vector that would be summed and noised."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.count = int(rng.integers(4, 12))
        self.own = rng.normal(size=(self.count, 3))
        self.train = torch.from_numpy(rng.random(self.count) < rng.choice([0.5, 1.0]))
        self.labels = torch.from_numpy(rng.integers(0, 2, self.count))
        self.transfers = draw_transfers(rng, self.count)
        scale = float(rng.choice([0.2, 1.0, 3.0]))
        self.settings = Settings(graph=False, link_columns=WIDTH, scale=scale)
        self.rng = rng

    def sums(self, drawn: list[Transfer], without: int | None = None) -> torch.Tensor:
        block = sum_over_links(sightings(drawn), RULE, self.count)
        graph = Graph(
            name="made",
            features=torch.from_numpy(np.concatenate([self.own, block], 1)).float(),
            edge_index=torch.zeros(2, 0, dtype=torch.int64),
            labels=self.labels,
            split=Split(self.train, ~self.train, ~self.train),
            num_classes=2,
        )
        if without is not None:
            kept = torch.arange(self.count) != without
            graph = graph.subgraph(kept.nonzero().flatten())
        return pack_moments(moments_of(graph, rows_of(graph, None, self.settings)))

    def moved_by_links(self) -> list[float]:
        """For every pair: how far its removal, and a change of it, moves the sums, over 2 nm."""
        whole, moved_shares = self.sums(self.transfers), []
        for pair in {frozenset(t[:2]) for t in self.transfers}:
            rest = [t for t in self.transfers if frozenset(t[:2]) != pair]
            a, b = sorted(pair)
            other = [*rest, (b, a, 1e8, 25), (b, a, 1e8, 5)]
            for changed in (rest, other):
                moved = float((whole - self.sums(changed)).norm())
                moved_shares.append(moved / (2 * neighbour_moves(self.settings)))
        return moved_shares

    def moved_by_nodes(self) -> list[float]:
        """For every account: how far its removal moves the sums, over S(its partners)."""
        whole, moved_shares = self.sums(self.transfers), []
        for node in range(self.count):
            links = len({frozenset(t[:2]) for t in self.transfers if node in t[:2]})
            rest = [t for t in self.transfers if node not in t[:2]]
            moved = float((whole - self.sums(rest, without=node)).norm())
            moved_shares.append(moved / moved_by_node(self.settings, links))
        return moved_shares


@pytest.mark.parametrize("seed", range(40))
def test_no_link_and_no_account_moves_the_sums_further_than_claimed(seed: int) -> None:
    case = Case(seed)
    assert max(case.moved_by_links(), default=0.0) <= 1 + 1e-5
    assert max(case.moved_by_nodes()) <= 1 + 1e-5


def test_bound_on_links_is_not_far_from_what_happens() -> None:
    assert max(m for seed in range(40) for m in Case(seed).moved_by_links()) > 0.4


def saturated_case(count: int, pairs: list[Transfer], scale: float) -> Case:
    """Accounts that look alike, and between each pair as many and as large transfers as count."""
    case = Case(0)
    case.count, case.own = count, np.ones((count, 3))
    case.train, case.labels = torch.ones(count, dtype=torch.bool), torch.zeros(count).long()
    case.transfers = pairs
    case.settings = Settings(graph=False, link_columns=WIDTH, scale=scale)
    return case


def largest_transfers(first: int, second: int) -> list[Transfer]:
    ways = [(first, second), (second, first)]
    return [(a, b, 1e30, day) for a, b in ways for day in (5, 15, 25) for _ in range(40)]


def test_hostile_cliques_and_stars_come_near_the_bound_and_not_past_it() -> None:
    count = 6
    clique = [t for a in range(count) for b in range(a) for t in largest_transfers(a, b)]
    star = [t for b in range(1, count) for t in largest_transfers(0, b)]
    moves = {
        scale: (
            max(saturated_case(count, clique, scale).moved_by_links()),
            max(saturated_case(count, clique, scale).moved_by_nodes()),
            max(saturated_case(count, star, scale).moved_by_nodes()),
        )
        for scale in (1.0, count - 1.0, 2.0 * count)
    }
    assert max(max(found) for found in moves.values()) <= 1 + 1e-5
    assert moves[count - 1.0][0] > 0.94
    assert moves[count - 1.0][1] > 0.91


def test_referee_catches_links_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain totals, as every table of aggregates has them, pass the bound."""

    def plain(rows: list[tuple[float | None, ...]], rule: TransferRule) -> list[float]:
        total = sum(row[0] or 0.0 for row in rows)
        return [total] + [0.0] * (WIDTH // 2 - 1)

    monkeypatch.setattr(transfers, "_row_entries", plain)
    assert max(m for seed in range(20) for m in Case(seed).moved_by_links()) > 1.5


def test_link_vector_is_never_longer_than_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        drawn = [
            (int(rng.integers(2)), [float(10 ** rng.uniform(-2, 30)), float(rng.integers(-9, 99))])
            for _ in range(int(rng.integers(1, 300)))
        ]
        vector = transfers.link_vector([(way, tuple(row)) for way, row in drawn], RULE, WIDTH)
        assert np.linalg.norm(vector) <= 1 + 1e-12
        assert vector.min() >= 0


YAML = (
    'nodes: accounts\nedges: transfers\nlabel: fraud\nclasses: ["no", "yes"]\n'
    "range: {age: [0, 100]}\nunknown_ends: drop\n"
    "transfers: {amount: {amount: [0, 10]}, time: {day: [0, 10, 20, 30]}}\n"
)


@pytest.fixture
def banks(tmp_path: Path) -> Path:
    """Two banks of 40 accounts; a transfer across is in both banks' tables."""
    rng, root = np.random.default_rng(0), tmp_path / "banks"
    drawn = [(int(a), int(b)) for a, b in rng.integers(0, 80, (300, 2)) if a != b]
    for bank in range(2):
        folder = root / f"bank{bank}"
        folder.mkdir(parents=True)
        own = range(40 * bank, 40 * bank + 40)
        rows = [f"A{n},{20 + n % 50},{'yes' if n % 4 == 0 else 'no'}" for n in own]
        (folder / "accounts.csv").write_text("\n".join(["id,age,fraud", *rows]))
        seen = [(a, b) for a, b in drawn if a in own or b in own]
        lines = [f"A{a},A{b},{10 * a + 1},{b % 30}" for a, b in seen]
        (folder / "transfers.csv").write_text("\n".join(["from,to,amount,day", *lines]))
    (root / "tables.yaml").write_text(YAML)
    return root


def config_of(folder: Path, link_columns: int) -> dict[str, object]:
    return {
        "method": {"name": "two_sums", "graph": False, "link_columns": link_columns, "links": 15},
        "data": {"name": "folder", "folder": str(folder), "split": {"kind": "shares"}},
        "partition": {"name": "given"},
        "training": {"rounds": 1, "patience": None, "final_model": "last"},
        "privacy": {"mechanism": "local_gaussian", "unit": "node", "target_epsilon": 4},
    }


def test_prepared_sums_count_a_transfer_across_banks_once(banks: Path, tmp_path: Path) -> None:
    together = prepared(banks, table_settings(banks))
    assert together.faults == ()
    assert together.features.shape[1] == 1 + WIDTH
    alone = banks / "bank0"
    (alone / "tables.yaml").write_text(YAML)
    own = prepared(alone, table_settings(alone), together.schema)
    assert np.array_equal(own.features, together.features[:40])  # a bank needs nobody's tables


def test_epsilon_per_edge_and_node_covers_sums_over_links(banks: Path, tmp_path: Path) -> None:
    write_prepared(prepared(banks, table_settings(banks)), tmp_path / "out")
    covered = prepare(parse_config(config_of(tmp_path / "out", WIDTH)))
    claims = planned_epsilons(covered)
    assert claims["node"].epsilon == pytest.approx(4, abs=0.01)
    assert claims["edge"].epsilon is not None
    assert 0 < claims["edge"].epsilon < 4
    assert [one.whose for one in claims["node"].by_links] == ["covered"]
    assert not any("computed from edges" in what for what in not_covered(covered))
    plain = prepare(parse_config(config_of(tmp_path / "out", 0)))
    assert any("computed from edges" in what for what in not_covered(plain))
    scaled = config_of(tmp_path / "out", WIDTH)
    scaled["data"] = {**scaled["data"], "normalize_features": "l2"}  # type: ignore[dict-item]
    assert any("computed from edges" in w for w in not_covered(prepare(parse_config(scaled))))


def test_link_columns_that_no_proof_covers_are_refused(banks: Path, tmp_path: Path) -> None:
    write_prepared(prepared(banks, table_settings(banks)), tmp_path / "out")
    given = config_of(tmp_path / "out", WIDTH)
    for change, message_text in (
        ("method.graph=true", "expected graph: false"),
        ("method.narrow=4", "at most method.narrow"),
        ("method.link_columns=99", "expected fewer than all"),
    ):
        with pytest.raises(ConfigError, match=message_text):
            prepare(parse_config(given, [change]))
    setup = prepare(parse_config(given))
    info = replace(setup.public, node_holders=2, edge_holders=1)
    with pytest.raises(ConfigError, match="as many clients for an edge as for a node"):
        setup.method.releases(setup.config.method, setup.config.training, info)


ODD_TRANSFERS = (
    *("A1,A2,nan,3", "A1,A2,1e30,3", "A1,A2,,3", "A1,A2,5,", "A1,A2,5,nan", "A1,A1,5,3"),
    *(" A1 ,A2,5,3", "A1,nobody,5,3", "A1,A2,5,3\nA1,A2,5,3\nA2,A1,9,9"),
)
REFUSED_TRANSFERS = ("A1,A2,inf,3", "A1,A2,-5,3", "A1,A2,1e31,3", "A1,A2,5,inf", "A1,A2,0x1,3")


@pytest.mark.parametrize("line", [*ODD_TRANSFERS, *REFUSED_TRANSFERS])
def test_odd_transfer_is_refused_or_moves_two_rows_by_at_most_one(banks: Path, line: str) -> None:
    """Missing, repeated, huge and negative amounts, loops, and partners that nobody knows."""
    before = prepared(banks, table_settings(banks))
    path = banks / "bank0" / "transfers.csv"
    path.write_text(path.read_text() + "\n" + line)
    after = prepared(banks, table_settings(banks))
    assert bool(after.faults) == (line in REFUSED_TRANSFERS)
    moved = np.linalg.norm(after.features - before.features, axis=1)
    assert np.isfinite(after.features).all()
    assert moved.max() <= 1 + 1e-6
    assert set(moved.nonzero()[0]) <= {1, 2}


def test_amount_that_is_no_number_is_refused(banks: Path) -> None:
    path = banks / "bank0" / "transfers.csv"
    path.write_text(
        path.read_text().replace(",11,", ",much,").replace(",21,", ",much,") + "\nA1,A2,much,3"
    )
    faults = prepared(banks, table_settings(banks)).faults
    assert {fault.path for fault in faults} == {path}
    assert "found amount 'much'; wanted amounts as numbers" in str(faults[-1])
