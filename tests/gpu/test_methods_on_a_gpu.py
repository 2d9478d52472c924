"""Every method gives the CPU's results on a GPU. `make test-gpu` runs these where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.runs.device import choose_device
from securefg.runs.doctor import compare_weights, small_tree
from securefg.settings.methods import SHIPPED

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here"),
    # A kernel without a deterministic form warns and runs all the same.
    pytest.mark.filterwarnings("ignore:.*deterministic.*:UserWarning"),
]


@pytest.mark.parametrize("method", sorted(SHIPPED))
def test_method_on_a_gpu_gives_the_results_of_the_cpu(method: str) -> None:
    assert compare_weights(method, [], ["device=cuda"], small_tree(method)).bad == ""


def test_device_cuda_is_chosen_where_it_is_named(tmp_path: Path) -> None:
    assert choose_device("cuda").type == "cuda"
