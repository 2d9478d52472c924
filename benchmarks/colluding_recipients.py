"""What clients that pool their sums solve for, in GFL-APPNP with sums that only recipients open.

    OPENBLAS_NUM_THREADS=1 python benchmarks/colluding_recipients.py

Prints the figures of docs/research/masking_figures.md: k colluding clients have k sums of the
others' h_j, and know the weights, which every client was told to form its parts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from securefg.models.appnp import propagation_matrix
from securefg.runs.assembly import prepare
from securefg.secagg.exposure import linear_exposure
from securefg.settings.config import load_config

CONFIG = Path("configs/gfl_dnc_v2_masked.yaml")
DRAWS = 5


def main() -> None:
    for num_nodes in (60, 200):
        experiment = prepare(load_config(CONFIG, [f"data.csbm.num_nodes={num_nodes}"]))
        edges = experiment.public.edge_index
        assert edges is not None
        weights = propagation_matrix(edges, num_nodes).fill_diagonal_(0).numpy()
        rng = np.random.default_rng(0)
        for size in (1, num_nodes // 4, num_nodes // 2 - 1, num_nodes // 2, num_nodes * 3 // 4):
            shares, amplified = [], []
            for _ in range(DRAWS):
                colluders = rng.choice(num_nodes, size, replace=False)
                found = linear_exposure(weights[colluders], known=colluders.tolist())
                shares.append(found.share)
                amplified += found.amplification[found.exposed].tolist()
            words = f"noise amplified by {np.median(amplified):.3g}" if amplified else ""
            print(f"{size:3} of {num_nodes} collude: {np.mean(shares):6.1%} exposed  {words}")


if __name__ == "__main__":
    main()
