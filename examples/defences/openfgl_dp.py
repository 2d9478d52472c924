"""OpenFGL's DP: the clipped mean gradient takes a step, and noise is added to the weights.

    pip download --no-deps openfgl-lib==1.1.0 && unzip -d openfgl openfgl_lib-1.1.0-*.whl
    PYTHONPATH=openfgl securefg audit mechanism defences.openfgl_dp

The noise assumes that a step moves the weights by `lr * grad_clip / samples` at most. That holds
for plain SGD (`defences.openfgl_dp_sgd`). The library's default is Adam, which is measured here.
The values are one sample's clipped gradient, and the gradients of all other samples are zero. The
library's config names no `dp_eps` and no `dp_delta`, so they are given here.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from audits.mechanisms.callables import Claim

EPSILON, DELTA, GRAD_CLIP, LR, SAMPLES, SIZE = 10.0, 1e-5, 1.0, 0.01, 100, 40

CLAIM = Claim(
    epsilon=EPSILON, delta=DELTA, norm=GRAD_CLIP, size=SIZE, relation="replaced", noise="gaussian"
)
ARGUMENTS = SimpleNamespace(
    num_rounds=1,
    client_frac=1.0,
    dp_mech="gaussian",
    dp_eps=EPSILON,
    dp_delta=DELTA,
    lr=LR,
    grad_clip=GRAD_CLIP,
)


def release_by(optimizer: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the step against the gradient with its noise, in units of the assumed step."""
    from openfgl.utils.privacy_utils import add_noise

    net = torch.nn.Linear(SIZE, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        net.weight.zero_()
    length = max(float(np.linalg.norm(values)), GRAD_CLIP)
    net.weight.grad = torch.from_numpy(values * GRAD_CLIP / length / SAMPLES)[None]
    optimizer(net.parameters(), lr=LR).step()
    add_noise(ARGUMENTS, net, SAMPLES)
    return np.asarray(-net.weight.detach().numpy()[0] / (LR * GRAD_CLIP / SAMPLES), np.float64)


def release(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return release_by(torch.optim.Adam, values)
