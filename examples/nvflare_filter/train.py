"""A client's script as in NVIDIA FLARE's hello-numpy: receive, train in numpy, send."""

from __future__ import annotations

import numpy as np
import nvflare.client as flare
from exchange import CANARY, LR, draw_data, gradient
from nvflare.app_common.np.constants import NPConstants


def main() -> None:
    flare.init()
    number = int(flare.get_site_name().removeprefix("site-")) - 1
    data = draw_data(np.random.default_rng(0))
    while flare.is_running():
        model = flare.receive()
        weights = model.params[NPConstants.NUMPY_KEY]
        change = np.zeros_like(weights)
        if number != CANARY:
            change = -LR * gradient(weights, *data[number])
        flare.send(
            flare.FLModel(
                params={NPConstants.NUMPY_KEY: weights + change},
                params_type=flare.ParamsType.FULL,
                metrics={"weight_mean": float(np.mean(weights))},
                meta={"NUM_STEPS_CURRENT_ROUND": 1 if number == CANARY else len(data[number][0])},
            )
        )


if __name__ == "__main__":
    main()
