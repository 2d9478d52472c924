"""Sharing a secret among 101 holders at threshold 67 takes milliseconds.

    python benchmarks/bench_shamir.py

The ratio sets combining with Lagrange coefficients at hand against computing them anew.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from securefg.secagg import shamir
from securefg.secagg.secret import Secret

NUM_SHARES, THRESHOLD, NUM_ROUNDS = 101, 67, 30


def milliseconds(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    timed = []
    for _ in range(NUM_ROUNDS):
        before()
        start = time.perf_counter()
        work()
        timed.append(1e3 * (time.perf_counter() - start))
    return statistics.median(timed)


def main() -> None:
    torch.set_num_threads(1)  # as in every run
    secret, points = Secret.fresh(), range(1, NUM_SHARES + 1)
    shares = shamir.split_secret(secret, points, THRESHOLD)
    check = shamir.commits_to(shamir.commit_to_secret(secret, b"session", 0), b"session", 0)

    def combine() -> Secret:
        return shamir.combine_shares(shares, THRESHOLD, check)

    split_ms = milliseconds(lambda: shamir.split_secret(secret, points, THRESHOLD))
    first_ms = milliseconds(combine, before=shamir._lagrange_at_zero.cache_clear)
    again_ms = milliseconds(combine)
    print(f"{NUM_SHARES} shares, threshold {THRESHOLD}: split {split_ms:.2f} ms")
    print(
        f"combine: first secret of a set of holders {first_ms:.2f} ms, each more {again_ms:.2f} ms"
    )
    print(f"ratio {first_ms / again_ms:.0f}")


if __name__ == "__main__":
    main()
