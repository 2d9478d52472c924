"""Nothing leaves the device inside a training loop, and models run wherever their inputs are.

Runs go over a device that is not there (`tests/fake_device.py`): it refuses what a GPU refuses.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from audits.shadows import Recipe, train_shadows
from securefg.data.drawn_graphs import draw_csbm
from securefg.foundation.errors import ConfigError
from securefg.methods.registry import get_method
from securefg.models.gcn import GcnShape
from securefg.models.network import keep_mask
from securefg.models.sparse import DenseMatrix
from securefg.runs import assembly
from securefg.runs.device import choose_device
from securefg.runs.folder import RunFolder
from securefg.runs.release_file import read_release
from securefg.settings.config import RunConfig
from securefg.settings.data import CsbmSettings
from tests.contract.test_engines import CONFIGS, finished, small_version, unlike
from tests.fake_device import DEVICE, fake_device
from tests.small import CSBM

MOVES = ("cpu", "numpy", "item", "tolist")
ON_THE_CPU = {
    "batched_gcn": "numpy finds the places of a mask that is on the CPU already",
    "given": "weights of a network that was given are hashed once, before the run",
    "graph_coordinates": "eigenvectors and a regression are computed once, by scipy",
    "graph_operators": "operators are built once, by scipy",
    "many_mlps": "initial weights and sample orders come from numpy streams, drawn once",
    "neighbourhoods": "sums over neighbourhoods are planned once, and masked on the CPU",
    "probes": "scikit-learn's classifiers",
    "pseudo_graph": "numpy and faiss, asked where the rows are on the CPU already",
    "sparse": "SciPy builds and multiplies matrices that are on the CPU already",
    "skip_gram": "walks are drawn by numpy, and gensim trains on the CPU",
    "user_init": "initial rows come from numpy streams, drawn once",
}
"""Files that leave the device on purpose, and why; a training loop is in none of them."""


def moves(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in MOVES}


def test_models_move_nothing_off_the_device() -> None:
    assert {path.stem for path in Path("securefg/models").glob("*.py") if moves(path)} == set(
        ON_THE_CPU
    )


def test_gpu_page_lists_what_stays_on_the_cpu() -> None:
    page = Path("docs/reference/gpu.md").read_text()
    rows = [f"| `{name}` | {reason} |" for name, reason in ON_THE_CPU.items()]
    assert [row for row in rows if row not in page] == []


def test_weights_and_features_stay_on_their_device() -> None:
    shape = GcnShape(5, 4, 3)
    vector = torch.empty(shape.num_parameters, device="meta")
    first, second = shape.split(vector)
    features = DenseMatrix(torch.empty(7, 5)).to(torch.device("meta"))
    hidden = features.matmul(first, features.values)
    assert (hidden @ second).device.type == "meta"
    assert (hidden @ second).shape == (7, 3)


def test_dropout_masks_are_drawn_on_the_streams_device() -> None:
    stream = torch.Generator("cpu").manual_seed(0)
    assert keep_mask(torch.Size((3, 2)), 0.5, stream).device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a GPU where there is none")
def test_a_gpu_that_is_not_there_is_named() -> None:
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match="PyTorch finds no GPU here"):
        choose_device("cuda:1")


ONE_OF_EACH = (
    "alone_cora",
    "fedavg_graphsage_csbm",
    "fedgl_acm",
    "fedgl_cora_private",
    "fedmlp_sc",
    "gfl_dnc",
    "mlps_sc",
    "nfedgnn_cnfgnn",
    "ppfl_deepwalk_citeseer_masked",
    "private_cora",
)
KEEP_LAST = "training.final_model=last"  # else a model that is not the last is scored once more
BESIDE_MESSAGES = {
    "securefg/models/many_mlps.py": "the order of samples is drawn by numpy, once a round",
    "securefg/models/probes.py": "scikit-learn scores the rows, once a scoring",
    "securefg/models/pseudo_graph.py": "one question to the whole graph, once a round",
    "securefg/models/user_weights.py": "whether all users are at one step, once a round",
}
"""Models that ask something of the device on purpose; how often does not hang on the epochs."""


def on_a_fake_device(parsed: RunConfig, root: Path, *overrides: str) -> tuple[RunFolder, Counter]:
    with pytest.MonkeyPatch.context() as patch, fake_device() as moves:
        patch.setattr(assembly, "choose_device", lambda wanted: DEVICE)
        run = finished(parsed, f"output.root={root}", "privacy.noise_rng=seeded", *overrides)
    return run, Counter(moves)


def weights(run: RunFolder) -> dict[str, torch.Tensor]:
    release = read_release(run.path / "model.safetensors", get_method(run.config().method.name))
    return {k: v for k, v in vars(release).items() if isinstance(v, torch.Tensor)}


@pytest.mark.parametrize("stem", ONE_OF_EACH)
def test_a_run_on_another_device_is_the_run_on_the_cpu(stem: str, tmp_path: Path) -> None:
    check_other_device(stem, tmp_path)


@pytest.mark.slow
def test_runs_of_all_configs_on_another_device_agree(tmp_path: Path) -> None:
    for path in unlike(CONFIGS):
        if path.stem not in ONE_OF_EACH and not small_version(path, path).training.dp_sgd:
            check_other_device(path.stem, tmp_path / path.stem)


def check_other_device(stem: str, tmp_path: Path) -> None:
    parsed = small_version(Path("configs", f"{stem}.yaml"), tmp_path)
    there, moves = on_a_fake_device(parsed, tmp_path / "there")
    here = finished(parsed, f"output.root={tmp_path}/here", "privacy.noise_rng=seeded")
    for line in moves:
        room, _, code = line.partition(": ")
        assert "securefg/models/" not in room or room in BESIDE_MESSAGES, code
    assert there.summary().device == str(DEVICE)
    for name, value in weights(here).items():
        torch.testing.assert_close(weights(there)[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stem", ["fedgl_acm", "fedavg_graphsage_csbm", "gfl_dnc"])
def test_longer_training_moves_nothing_more(stem: str, tmp_path: Path) -> None:
    parsed = small_version(Path("configs", f"{stem}.yaml"), tmp_path)
    few, many = (
        on_a_fake_device(parsed, tmp_path / str(n), f"training.local_epochs={n}", KEEP_LAST)[1]
        for n in (1, 4)
    )
    assert few == many


def test_shadows_are_trained_where_they_are_told() -> None:
    graph = draw_csbm(CsbmSettings(**CSBM), 0)
    targets, recipe = np.arange(40), Recipe(4, 3, 8, 0.0, 0.01, 5e-4, seed=0)
    here = train_shadows(graph, targets, recipe, torch.device("cpu"))
    with fake_device() as moves:
        there = train_shadows(graph, targets, recipe, DEVICE)
    assert len(moves) == 1  # the answers of one group
    np.testing.assert_allclose(there["logits"], here["logits"], atol=1e-5)


def test_the_fake_device_refuses_what_a_gpu_refuses() -> None:
    with fake_device() as moves:
        there = torch.ones(3, device=DEVICE)
        with pytest.raises(RuntimeError, match="is on the CPU"):
            there + torch.ones(3)
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
        assert moves == []
        assert (there * 2).cpu().tolist() == [2, 2, 2]
        assert len(moves) == 1
