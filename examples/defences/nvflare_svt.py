"""NVIDIA FLARE's SVTPrivacy filter, with its defaults but for a gamma of the canary's size.

    securefg audit mechanism defences.nvflare_svt

It documents epsilon for choosing which numbers are sent and noise_var for the noise on them; what
is claimed here is the sum of both budgets, as its own ledger adds them up.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.mechanisms.callables import Claim

EPSILON, NOISE_VAR, FRACTION, SIZE = 0.1, 0.1, 0.1, 40

CLAIM = Claim(epsilon=EPSILON + int(SIZE * FRACTION) * NOISE_VAR, delta=1e-9, norm=1.0, size=SIZE)


def release(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from nvflare.apis.dxo import DXO, DataKind
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable
    from nvflare.app_common.filters.svt_privacy import SVTPrivacy

    logging.disable(logging.CRITICAL)
    svt = SVTPrivacy(
        fraction=FRACTION, epsilon=EPSILON, noise_var=NOISE_VAR, gamma=1.0, tau=0.1, replace=False
    )
    dxo = DXO(DataKind.WEIGHT_DIFF, {"w": np.asarray(values, np.float64)})
    out: Any = svt.process_dxo(dxo, Shareable(), FLContext())
    return np.asarray(out.data["w"], np.float64)
