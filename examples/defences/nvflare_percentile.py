"""NVIDIA FLARE's PercentilePrivacy filter: no noise at all, though its name says privacy.

    securefg audit mechanism defences.nvflare_percentile

It claims no epsilon; it is held against 4.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.mechanisms.callables import Claim

CLAIM = Claim(epsilon=4.0, delta=1e-5, norm=1.0, size=40)


def release(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from nvflare.apis.dxo import DXO, DataKind
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable
    from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy

    logging.disable(logging.CRITICAL)
    dxo = DXO(DataKind.WEIGHT_DIFF, {"w": np.asarray(values, np.float64)})
    out: Any = PercentilePrivacy().process_dxo(dxo, Shareable(), FLContext())
    return np.asarray(out.data["w"], np.float64)
