"""Nothing leaves the device inside a training loop, and models run wherever their inputs are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import ConfigError
from securefg.models.gcn import GcnShape, keep_mask
from securefg.models.sparse import DenseMatrix
from securefg.run.assembly import choose_device

LOOPS = [Path("securefg/models/local_training.py"), Path("securefg/models/gcn.py")]


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_training_code_moves_nothing_off_the_device(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("cpu", "numpy", "item", "tolist"), ast.unparse(node)


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
