"""FedGL's pseudo graph from a thousand nodes to 100 thousand: exact, and nearly so by faiss.

    python benchmarks/pseudo_graph_growth.py

CPU seconds of one thread, 7 classes, 100 neighbours; rows as a classifier gives them, a class
standing out by a random amount.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from securefg.models.pseudo_graph import build_nearly, build_pseudo_graph

SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
CLASSES, KEPT = 7, 100


def logits(count: int) -> Tensor:
    stream = torch.Generator().manual_seed(0)
    drawn = torch.randn(count, CLASSES, generator=stream)
    one = torch.randint(CLASSES, (count,), generator=stream)
    drawn[torch.arange(count), one] += 2.5 * torch.rand(count, generator=stream)
    return drawn - drawn.mean(1, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--exact-up-to", type=int, default=100_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    build_nearly(logits(500), KEPT, 0)  # faiss is loaded once
    print("    nodes   exact, CPU s   nearly, CPU s   recall")
    for size in asked.sizes:
        rows = logits(size)
        started = time.process_time()
        if size <= asked.exact_up_to:
            build_pseudo_graph(rows, KEPT)
        between = time.process_time()
        _, recall = build_nearly(rows, KEPT, 0)
        near = time.process_time() - between
        print(f"{size:9,} {between - started:14.2f} {near:15.2f} {recall:8.3f}", flush=True)


if __name__ == "__main__":
    main()
