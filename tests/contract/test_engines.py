"""Every engine carries the same bytes and gives the same weights, for every method and config."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from securefg.foundation.errors import BudgetExceeded, RunFailed
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig, load_config, parse_config
from tests.small import CSBM, config

CONFIGS = sorted(p for p in Path("configs").glob("*.yaml") if not p.stem.startswith("curve_"))
ONE_OF_EACH = (
    "alone_cora",
    "alone_made",
    "fedavg_graphsage_csbm",
    "fedgl_cora_private",
    "fedmlp_sc_dp_sgd",
    "gfl_dnc",
    "mlps_sc",
    "nfedgnn_cnfgnn",
    "ppfl_deepwalk_citeseer_masked",
    "ppfl_gat_citeseer",
    "private_few_labels_cornell5",
    "private_made",
    "private_published_cornell5",
    "private_users_cora",
)
"""A config of every method. Masks, local noise, DP-SGD and distributed noise are among them."""
SAMPLES = {"num_nodes": 30, "num_features": 12, "samples_per_node": 24}


@cache
def shipped(path: Path) -> str:
    return load_config(path).model_dump_json()


def small_version(path: Path, root: Path) -> RunConfig:
    """The config as shipped, on a small graph for a few rounds."""
    tree = json.loads(shipped(path))
    task = (tree["data"]["csbm"] or CSBM)["task"]
    small = CSBM if task == "dnc" else {**SAMPLES, "task": task}
    drawn = tree["data"]["csbm"] or {}
    on_edges = drawn.get("edge_features", 0)
    tree["data"] = {"name": "csbm", "csbm": {**small, "edge_features": on_edges}}
    if tree["method"].get("sums") == "recipients":
        tree["data"]["csbm"]["num_nodes"] = 40  # every two clients agree on a pad, every round
    tree["training"]["rounds"] = min(3, tree["training"]["rounds"])
    if tree["training"]["dp_sgd"]:
        tree["training"]["dp_sgd"]["num_samples"] = 2
    if tree["partition"]["name"] == "shares":
        tree["partition"]["shares"] = [0.5, 0.6, 0.7]
    if tree["partition"]["name"] in ("given", "feature_group"):
        tree["partition"] = {"name": "random"}
    if tree["partition"]["name"] in ("public_private", "louvain", "random"):
        tree["partition"]["num_clients"] = 3
    if tree["method"].get("scoring") == "cross_validation":
        tree["method"]["scoring"] = "split"  # five folds of classifiers tell nothing of engines
    tree["output"] = {"root": str(root), "transcript_every": 1}
    return parse_config(tree)


def finished(parsed: RunConfig, *overrides: str) -> RunFolder:
    return runner.start(parse_config(parsed.model_dump(mode="json"), overrides)).folder


def counted_bytes(run: RunFolder) -> Any:
    """Return what crossed; of a committee the uploads alone, since its members on one host are
    shown all uploads once."""
    masks, found = run.config().privacy.secure_aggregation, run.summary().bytes
    return found if masks is None or masks.form == "session" else found.up.payload


def same_result(one: RunFolder, other: RunFolder) -> bool:
    models = [(run.path / "model.safetensors").read_bytes() for run in (one, other)]
    sizes = [counted_bytes(run) for run in (one, other)]
    scores = [[line["val_loss"] for line in run.metrics()] for run in (one, other)]
    return models[0] == models[1] and sizes[0] == sizes[1] and scores[0] == scores[1]


def shape(value: Any) -> Any:
    """A config with every number alike: what decides which code runs."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items() if key not in ("name", "output")}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def unlike(paths: list[Path]) -> list[Path]:
    """One config of every shape: those that differ in numbers alone take the same way."""
    distinct_paths: dict[str, Path] = {}
    for path in paths:
        tree = small_version(path, Path("unused")).model_dump(mode="json")
        key = json.dumps([tree["method"]["name"], tree["partition"]["name"], shape(tree)])
        distinct_paths.setdefault(key, path)
    return list(distinct_paths.values())


def test_one_of_each_covers_every_method_that_a_config_runs() -> None:
    methods = [small_version(path, Path("unused")).method.name for path in CONFIGS]
    chosen = [load_config(Path(f"configs/{stem}.yaml")).method.name for stem in ONE_OF_EACH]
    assert len(methods) > 70  # every shipped config is read whole
    assert sorted(chosen) == sorted(set(methods))


def is_same_in_processes(path: Path, root: Path) -> bool:
    """Tell if hosts in processes of their own give the weights and bytes of one process."""
    parsed, seeded = small_version(path, root), "privacy.noise_rng=seeded"
    here = finished(parsed, f"output.root={root}/here", seeded)
    apart = finished(parsed, f"output.root={root}/apart", "engine.name=processes", seeded)
    return same_result(here, apart)


@pytest.mark.parametrize("stem", ONE_OF_EACH)
def test_processes_give_the_weights_and_bytes_of_one_process(stem: str, tmp_path: Path) -> None:
    assert is_same_in_processes(Path(f"configs/{stem}.yaml"), tmp_path)


@pytest.mark.slow
def test_processes_agree_with_one_process_for_every_config(tmp_path: Path) -> None:
    others = [path for path in unlike(CONFIGS) if path.stem not in ONE_OF_EACH]
    assert len(others) > 30
    assert [p.stem for p in others if not is_same_in_processes(p, tmp_path / p.stem)] == []


def test_a_method_that_smuggles_through_a_global_fails_under_processes(tmp_path: Path) -> None:
    method = "method={name: tests.contract.smuggler}"
    here = finished(config(tmp_path / "here"), method)
    apart = finished(config(tmp_path / "apart"), method, "engine.name=processes")
    assert not same_result(here, apart)


@pytest.mark.parametrize("engine", ["inprocess", "processes"])
def test_a_run_goes_on_without_a_client_that_raises(engine: str, tmp_path: Path) -> None:
    run = finished(config(tmp_path), "method.name=tests.contract.failing", f"engine.name={engine}")
    assert [line["dropped"] for line in run.metrics()] == [0, 1, 1, 1]
    assert run.summary().dropped == 1
    drops = [r for r in read_transcript(run.transcript) if r.kind == "dropped"]
    assert [(r.round, r.clients, r.note) for r in drops] == [(2, "0", "failed")]
    assert not any(b"12345" in path.read_bytes() for path in run.path.rglob("*") if path.is_file())


def test_a_host_that_dies_stays_away_and_the_run_goes_on(tmp_path: Path) -> None:
    run = finished(
        config(tmp_path),
        "method.name=tests.contract.failing",
        "method.deadly=true",
        "engine.name=processes",
    )
    assert [line["dropped"] for line in run.metrics()] == [0, 1, 2, 3]
    assert run.summary().rounds == 4


def test_a_run_without_any_client_left_fails(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="round 2: every client dropped out"):
        finished(config(tmp_path), "method.name=tests.contract.failing", "partition.shares=[1.0]")


@pytest.mark.parametrize("engine", ["inprocess", "processes"])
def test_a_budget_ends_the_run_before_the_release_that_would_pass_it(
    engine: str, tmp_path: Path
) -> None:
    run = finished(
        config(tmp_path),
        "privacy={mechanism: local_gaussian, noise_multiplier: 2, budget: 4, noise_rng: seeded}",
        "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}",
        "training.rounds=50",
        f"engine.name={engine}",
    )
    summary = run.summary()
    assert summary.stopped.startswith("privacy budget")
    assert summary.epsilon["client"].epsilon <= 4
    assert summary.rounds == 3  # mu = sqrt(3)/2: 3.88; a fourth release would make 4.38


def test_a_budget_too_small_for_one_release_sends_nothing(tmp_path: Path) -> None:
    run = finished(
        config(tmp_path),
        "privacy={mechanism: local_gaussian, noise_multiplier: 2, budget: 0.5}",
        "method={name: fedgl, weighting: equal}",
    )
    assert run.summary().rounds == 0
    assert not any(r.up for r in read_transcript(run.transcript))
    assert issubclass(BudgetExceeded, Exception)
