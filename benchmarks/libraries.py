"""Networks, per-sample gradients and decoders: ours against the libraries that also have them.

    OMP_NUM_THREADS=1 python benchmarks/libraries.py

- torch-geometric's GAT, SAGE and APPNP against ours: one training step on Cora (`networks.py`).
- Opacus' gradients of every sample against ours: 50 clients with 10 samples and weights of their
  own, a perceptron as FedMLP's. Opacus takes one client's module at a time.
- scikit-learn's ridge regression against our decoder, with as many ridges to choose from: the time
  of the work, and the time of the import, which an audit of seconds would pay too.

Both sides compute the same, which is checked. Figures are CPU time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from limits import Row
from networks import compare
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attacks.decoders import RIDGES, ridge_decoded
from securefg.data.datasets import load
from securefg.foundation.streams import torch_stream
from securefg.privacy.defences.dp_sgd import per_sample_gradients, watch_module
from securefg.privacy.private_training import Samples
from securefg.settings.data import DataSettings

NETWORKS = ("gat", "graphsage", "appnp")
CLIENTS, SAMPLES, FEATURES, HIDDEN, CLASSES = 50, 10, 100, 64, 2
KNOWN, WORDS, WIDTH = 300, 1433, 160
TOLERANCE = 1e-5


def spent(work: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of one go, after one that fills caches."""
    work()
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def network_rows(steps: int = 20) -> list[Row]:
    """Return torch-geometric's time over ours, network by network."""
    graph, measured_rows = load(DataSettings.model_validate({"name": "cora"}), seed=0), []
    for name in NETWORKS:
        difference, own, other = compare(name, graph, steps)
        assert difference < TOLERANCE, f"{name}: scores differ by {difference}"
        title = f"a training step of {name} on Cora, torch-geometric over ours, CPU"
        measured_rows.append(Row(title, 1, other / own, "x", least=True))
    return measured_rows


def gradients_row(times: int = 5) -> Row:
    """Return Opacus' time over ours for the gradients of every sample of every client."""
    stream = torch_stream(0, "benchmark")
    weights = (
        torch.randn(CLIENTS, FEATURES, HIDDEN, generator=stream) / FEATURES**0.5,
        torch.randn(CLIENTS, HIDDEN, CLASSES, generator=stream) / HIDDEN**0.5,
    )
    inputs = torch.randn(CLIENTS, SAMPLES, FEATURES, generator=stream)
    labels = torch.randint(CLASSES, (CLIENTS, SAMPLES), generator=stream)
    modules = [watch_module(perceptron(*(w[k] for w in weights))) for k in range(CLIENTS)]

    def ours() -> Tensor:
        return per_sample_gradients(weights, Samples(inputs, labels), loss_of_sample)

    def theirs() -> Tensor:
        return torch.stack([opacus(m, inputs[k], labels[k]) for k, m in enumerate(modules)])

    difference = float((ours() - theirs()).abs().max())
    assert difference < TOLERANCE, f"gradients differ by {difference}"
    name = f"gradients of {CLIENTS} clients' {SAMPLES} samples, Opacus over ours, CPU"
    return Row(name, 1, spent(theirs, times) / spent(ours, times), "x", least=True)


def loss_of_sample(weights: tuple[Tensor, ...], sample: Tensor, label: Tensor) -> Tensor:
    """Return the cross-entropy of one sample of one client."""
    first, second = weights
    return cross_entropy((sample @ first).relu() @ second, label)


def perceptron(first: Tensor, second: Tensor) -> nn.Module:
    """Return the same network as a module."""
    module = nn.Sequential(
        nn.Linear(FEATURES, HIDDEN, bias=False),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES, bias=False),
    )
    module[0].weight.data.copy_(first.T)
    module[2].weight.data.copy_(second.T)
    return module


def opacus(module: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return (samples, weights): the gradients that Opacus' hooks leave, in our order."""
    module.zero_grad()
    cross_entropy(module(inputs), labels, reduction="sum").backward()
    parts = [p.grad_sample.transpose(1, 2).flatten(1) for p in module.parameters()]
    return torch.cat(parts, 1)


def decoder_rows(times: int = 3) -> list[Row]:
    """Return scikit-learn's time over ours for one ridge decoder, and its import over our work."""
    from sklearn.linear_model import RidgeCV

    rng = np.random.default_rng(0)
    known, wanted = rng.standard_normal((KNOWN, WIDTH)), rng.standard_normal((100, WIDTH))
    features = (rng.random((KNOWN, WORDS)) < 0.02).astype(np.float64)

    def ours() -> np.ndarray:
        return ridge_decoded(known, features, wanted)

    def theirs() -> np.ndarray:
        scale = np.square(np.linalg.svd(known - known.mean(0), compute_uv=False)).mean()
        made: np.ndarray = RidgeCV(alphas=RIDGES * scale).fit(known, features).predict(wanted)
        return made

    assert np.abs(ours() - theirs()).max() < 0.1, "the two decoders differ"
    own_seconds, other = spent(ours, times), spent(theirs, times)
    whole = import_seconds("numpy, torch, scipy.special, sklearn.linear_model")
    taken = whole - import_seconds("numpy, torch, scipy.special")
    work = f"ridge decoder, {KNOWN} known nodes, {WORDS} words"
    return [
        Row(f"{work}: scikit-learn over ours, CPU", 1, other / own_seconds, "x", least=True),
        Row(
            f"{work}: scikit-learn's import over our work, CPU",
            1,
            taken / own_seconds,
            "x",
            least=True,
        ),
    ]


def import_seconds(modules: str) -> float:
    """Return the CPU seconds of a process that imports these modules, the least of three."""
    code = f"import time, {modules}; print(time.process_time())"
    made = (subprocess.run([sys.executable, "-c", code], capture_output=True) for _ in range(3))
    return min(float(done.stdout) for done in made)


def rows() -> list[Row]:
    warnings.simplefilter("ignore")
    return [*network_rows(), gradients_row(), *decoder_rows()]


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    for row in rows():
        print("  ".join(row.cells()))


if __name__ == "__main__":
    main()
