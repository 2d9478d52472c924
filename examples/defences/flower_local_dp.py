"""Flower's LocalDpMod: clip the update, add Gaussian noise by the classical formula.

    python -m venv flower && flower/bin/pip install flwr securefg
    flower/bin/securefg audit mechanism defences.flower_local_dp

The classical formula sigma = S sqrt(2 ln(1.25 / delta)) / epsilon is proved for epsilon below 1;
the mod takes any. Claimed is epsilon 10; `--set claim.relation=replaced` measures what it is for
those who take `sensitivity = clipping_norm` for the distance between any two updates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audits.mechanisms.callables import Claim

EPSILON, DELTA, CLIP = 10.0, 1e-5, 1.0

CLAIM = Claim(epsilon=EPSILON, delta=DELTA, norm=CLIP, size=40)


def release(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """As `flwr.client.mod.LocalDpMod` treats the update that a client returns."""
    from flwr.common.differential_privacy import (
        add_localdp_gaussian_noise_to_params,
        compute_clip_model_update,
    )
    from flwr.common.parameter import ndarrays_to_parameters, parameters_to_ndarrays

    update = [np.asarray(values, np.float64)]
    compute_clip_model_update(update, [np.zeros_like(values)], CLIP)
    noised = add_localdp_gaussian_noise_to_params(
        ndarrays_to_parameters(update), CLIP, EPSILON, DELTA
    )
    (found,) = parameters_to_ndarrays(noised)
    return np.asarray(found, np.float64)
