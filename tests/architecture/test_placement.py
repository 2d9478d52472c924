"""Nothing leaves the device inside a training loop, and models run wherever their inputs are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import ConfigError
from securefg.models.gcn import GcnShape
from securefg.models.network import keep_mask
from securefg.models.sparse import DenseMatrix
from securefg.run.device import choose_device

MOVES = ("cpu", "numpy", "item", "tolist")
ON_THE_CPU = {
    "given": "weights of a network that was given are hashed once, before the run",
    "graph_operators": "operators are built once, by scipy",
    "many_mlps": "initial weights and sample orders come from numpy streams, drawn once",
    "neighbourhoods": "sums over neighbourhoods are planned once, and masked on the CPU",
    "probes": "scikit-learn's classifiers",
    "pseudo_graph": "numpy's partition is faster where the rows are on the CPU already",
    "skip_gram": "walks are drawn by numpy, and gensim trains on the CPU",
    "user_init": "initial rows come from numpy streams, drawn once",
}
"""Files that leave the device on purpose, and why; a training loop is in none of them."""


def moves(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in MOVES}


@pytest.mark.parametrize("path", sorted(Path("securefg/models").glob("*.py")), ids=str)
def test_models_move_nothing_off_the_device(path: Path) -> None:
    assert bool(moves(path)) == (path.stem in ON_THE_CPU)


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
