"""One round of the users' side of nFedGNN: their non-zero rows, against a dense matrix for each.

    python benchmarks/nfedgnn_speed.py --data cora pubmed

Three forms of one computation (a test shows that they agree), for all users, on one thread:

    rows     the method's: only rows of W_i whose feature is not zero, Adam in stretches
    dense    as one writes it in PyTorch: a parameter (n, d, q), autograd, Adam over all of it
    chunked  dense as well, but without autograd, and Adam in stretches: the least that dense takes

CPU seconds of a round are the least of several; memory is the peak above what the loaded features
take. Every form has a process of its own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from limits import Row
from torch import Tensor

from securefg.data.datasets import load
from securefg.models.optimizers import Adam
from securefg.models.user_init import shared_rows, shared_weights
from securefg.models.user_weights import SparseFeatures, UserMatrices, UserRows
from securefg.settings.data import DataSettings

HIDDEN, LR, DECAY = 16, 0.1, 5e-4
Round = Callable[[Tensor], None]


def own_rows(features: Tensor) -> Round:
    sparse = SparseFeatures.of(features)
    return _stepping(UserRows(sparse, shared_rows(sparse, HIDDEN, 0), LR, DECAY))


def chunked(features: Tensor) -> Round:
    return _stepping(UserMatrices(features, _matrices(features), LR, DECAY))


def dense(features: Tensor) -> Round:
    weights = _matrices(features).requires_grad_()
    adam = Adam([weights], [DECAY], LR)

    def one_round(gradients: Tensor) -> None:
        latents = torch.bmm(features[:, None], weights)[:, 0]
        adam.step(torch.autograd.grad(latents, weights, gradients))

    return one_round


FORMS = {"rows": own_rows, "dense": dense, "chunked": chunked}


def _matrices(features: Tensor) -> Tensor:
    return shared_weights(features.shape[1], HIDDEN, 0).repeat(len(features), 1, 1)


def _stepping(users: UserRows | UserMatrices) -> Round:
    def one_round(gradients: Tensor) -> None:
        users.latents()
        users.step(torch.arange(len(gradients)), gradients)

    return one_round


def measured(name: str, form: str, rounds: int) -> tuple[float, float]:
    """CPU seconds of a round, and GiB at the peak."""
    torch.set_num_threads(1)
    features = load(DataSettings(name=name), 0).features
    gradients = torch.randn(len(features), HIDDEN, generator=torch.Generator().manual_seed(1))
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    one_round, seconds = FORMS[form](features), []
    for _ in range(rounds):
        began = time.process_time()
        one_round(gradients)
        seconds.append(time.process_time() - began)
    return min(seconds), _memory("VmHWM") - before


def _memory(what: str) -> float:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 2**20


def in_a_process(name: str, form: str, rounds: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--data", name, "--form", form, "--rounds", str(rounds)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, gib = map(float, found.stdout.split())
    return seconds, gib


def rows() -> list[Row]:
    ours, dense = (in_a_process("pubmed", form, 4) for form in ("rows", "dense"))
    name = "a round of nFedGNN's users on PubMed, {} than a dense matrix for each"
    return [
        Row(name.format("faster"), 10, dense[0] / ours[0], "x", least=True),
        Row(name.format("less memory"), 10, dense[1] / ours[1], "x", least=True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--form", choices=list(FORMS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.form is not None:
        print(*measured(asked.data[0], asked.form, asked.rounds))
        return
    print("dataset  form      s/round   peak GiB   slower than rows   larger than rows")
    for name in asked.data:
        ours = in_a_process(name, "rows", asked.rounds)
        for form in FORMS:
            found = ours if form == "rows" else in_a_process(name, form, asked.rounds)
            slower, larger = (theirs / own for theirs, own in zip(found, ours, strict=True))
            print(
                f"{name:8} {form:8} {found[0]:8.4f} {found[1]:10.3f} {slower:18.1f} {larger:18.1f}"
            )


if __name__ == "__main__":
    main()
