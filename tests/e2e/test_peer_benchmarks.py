"""The table of other projects' defences, and the cost of recording a transformer."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import securefg

PEERS = Path("benchmarks/peers")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    import importlib

    folders = [str(PEERS.resolve()), str((PEERS / "hello_pt").resolve())]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])
    names = ("defences", "model", "transformer_cost", "utility_sweep")
    kept = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        del sys.modules[name]
    sys.modules.update(kept)


def test_table_of_defences_is_what_the_stored_rows_say(peers: Any) -> None:
    rows = json.loads((PEERS / "defences.json").read_text())
    table = peers.defences.table_text(rows)
    page = Path("docs/research/other_defences.md").read_text()
    assert table in page
    assert {peer.key for peer in peers.defences.PEERS} | {"fedgraph"} == rows.keys()


def test_page_has_the_stored_table_of_the_sweep(peers: Any) -> None:
    rows = json.loads((PEERS / "sweep_figures.json").read_text())
    assert peers.utility_sweep.table_text(rows) in Path("docs/howto/epsilon.md").read_text()


@pytest.mark.parametrize("unit", ["client", "record"])
def test_sweep_noise_keeps_the_epsilon_of_its_unit(peers: Any, unit: str) -> None:
    sweep = peers.utility_sweep
    noise = sweep.Cell(10, 3, unit, 8.0).find_noise()
    plan = {"nodes": 144, "rounds": 3, "clip": sweep.CLIP, "noise": noise}
    if unit == "record":
        plan |= {"batch": sweep.BATCH, "steps": sweep.count_steps(144)}
    epsilons = {row.unit: row.epsilon for row in securefg.compute_epsilon(**plan)}
    assert 7.5 < epsilons[unit] <= 8.0


@pytest.mark.parametrize("unit", ["nothing", "client", "record"])
def test_sweep_cell_of_a_round_gives_an_accuracy(
    peers: Any, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = peers.utility_sweep
    few = {site: tuple(part[:20] for part in sweep.load_part(site, 2)) for site in (0, 1, None)}
    monkeypatch.setattr(sweep, "load_part", lambda site, sites: few[site])
    cell = sweep.Cell(2, 1, unit, 8.0)
    assert 0 <= cell.play(0, 1.0, tmp_path) <= 1
    assert (tmp_path / "site-0").is_dir() == (unit == "client")


def test_true_epsilon_of_the_classical_formula_is_above_its_claim(peers: Any) -> None:
    removed, replaced = (peer.true_epsilon() for peer in peers.defences.PEERS[:2])
    assert re.findall(r"[\d.]+", removed) == ["10.4", "29.6"]
    assert re.findall(r"[\d.]+", replaced) == ["25.4", "81.2"]


def test_row_that_was_not_measured_keeps_out_of_the_table(peers: Any) -> None:
    assert peers.defences.table_text({}).count("\n") == 2


def test_openfgl_adapter_hands_its_noise_the_assumed_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[np.ndarray] = []

    def add_noise(arguments: Any, net: Any, samples: int) -> None:
        seen.append(net.weight.detach().numpy().copy())

    package = SimpleNamespace(add_noise=add_noise)
    monkeypatch.setitem(sys.modules, "openfgl", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "openfgl.utils", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "openfgl.utils.privacy_utils", package)
    monkeypatch.setattr(sys, "path", ["examples", *sys.path])
    import torch
    from defences.openfgl_dp import GRAD_CLIP, SIZE, release_by

    values = np.full(SIZE, 3.0)
    left = release_by(torch.optim.SGD, values)
    assert np.linalg.norm(left) == pytest.approx(GRAD_CLIP)
    assert left[0] > 0
    assert len(seen) == 1


def test_transformer_cost_of_a_small_one_is_above_one(peers: Any) -> None:
    cost = peers.transformer_cost
    found = cost.measure_rounds(cost.Size(width=16, layers=1), sequences=4, repeats=1)
    assert found["recorded"] > 1
    assert found["protected"] > 1
    assert found["weights"] > 100_000


@pytest.fixture
def flare_app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that imports a job's client.py and model.py anew."""
    pytest.importorskip("nvflare")
    import importlib

    def load(folder: str) -> Any:
        for name in ("client", "model"):
            sys.modules.pop(name, None)
        monkeypatch.syspath_prepend(str((PEERS / folder).resolve()))
        return importlib.import_module("client"), importlib.import_module("model")

    yield load
    for name in ("client", "model"):
        sys.modules.pop(name, None)


class OneRound:
    """FLARE's client API for one round of one site."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._params, self._rounds = params, iter((True, False))
        self.sent: list[Any] = []

    def init(self) -> None:
        """Begin."""

    def get_site_name(self) -> str:
        return "site-1"

    def is_running(self) -> bool:
        return next(self._rounds)

    def receive(self) -> Any:
        return SimpleNamespace(params=self._params)

    def send(self, model: Any) -> None:
        self.sent.append(model)

    FLModel = SimpleNamespace


@pytest.mark.parametrize(
    ("folder", "network"), [("hello_pt", "SimpleNetwork"), ("gnn_finance", "SAGE")]
)
def test_task_of_the_flare_job_trains_and_sends(
    folder: str, network: str, flare_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, model = flare_app(folder)
    if folder == "gnn_finance":
        monkeypatch.setattr(model, "load_cora", lambda: small_cora(model))
    start = getattr(model, network)().state_dict()
    flare = OneRound({name: value.numpy() for name, value in start.items()})
    monkeypatch.setattr(client, "flare", flare)
    monkeypatch.setattr(sys, "argv", ["client.py", "--sites", "40", "--epochs", "1"])
    client.main()
    (sent,) = flare.sent
    assert sent.params.keys() == start.keys()
    assert any((sent.params[name] != start[name]).any() for name in start)
    assert 0 <= sent.metrics["accuracy"] <= 1


def small_cora(model: Any) -> Any:
    """Return a ring of 100 nodes with Cora's number of features."""
    import torch
    from torch_geometric.data import Data

    rng = torch.Generator().manual_seed(0)
    nodes = torch.arange(100)
    edges = torch.stack([nodes, (nodes + 1) % 100])
    features = (torch.rand(100, model.FEATURES, generator=rng) < 0.02).float()
    graph = Data(x=features, y=nodes % model.CLASSES, edge_index=edges)
    return graph, nodes[20:], nodes[:20]
