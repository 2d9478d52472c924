"""Our client beside Flower's SecAgg+ on the same work, in one run.

    python benchmarks/secagg_against_flower.py

Flower's pins are not ours, so its own functions (`flowers_secagg.py`) run in a process of an
environment of their own, made in the cache on the first run. Both sides take turns of a few runs; a
turn counts with its median run, and the table shows medians over the turns: CPU milliseconds, and
the ratios within a turn. With `--runs 1` every run finds cold caches and has fresh memory to map.

    upload, keys at hand    quantise, mask and encode 1 M values; keys agreed on before
    upload stage            all that a client does between its shares' delivery and its upload:
                            open boxes, agree on keys with 10 neighbours, quantise, mask, encode
    split, 32 bytes         shares of one 32-byte secret for 101 holders, 67 of whom open it
    split, both secrets     shares of a client's seed and mask key, each side's own encoding of them
    combine                 the same secrets from 67 shares; ours finds Lagrange coefficients anew

Flower rounds at random; ours to nearest, as its channel does, and at random in a row of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import torch
from limits import Row
from secagg_growth import LoneClient, Others, encoded_bytes
from secagg_turns import (
    CLIP,
    FLOWER,
    LEVELS,
    NUM_NEIGHBOURS,
    NUM_SHARES,
    NUM_VALUES,
    THRESHOLD,
    Run,
    Work,
    turn,
    values,
)

from securefg.data.sources import cache_folder
from securefg.secagg import shamir
from securefg.secagg.masks import RowMask, apply_row_masks
from securefg.secagg.quantise import Grid
from securefg.secagg.secret import Secret
from securefg.settings.secagg import SecureAggregationSettings

FLOWERS_SIDE = Path(__file__).with_name("flowers_secagg.py")
POINTS = range(1, NUM_SHARES + 1)

ROWS = (  # name, our work, Flower's work, the least ratio wanted
    ("upload, keys at hand", "upload", "upload", 4),
    ("  rounding at random", "upload, random", "upload", None),
    ("upload stage", "stage", "stage", 4),
    ("split, 32 bytes", "split", "split", 500),
    ("split, both secrets", "split both", "split both", 500),
    ("combine, 32 bytes", "combine", "combine", 500),
    ("combine, both secrets", "combine both", "combine both", 500),
)


# --------------------------------------------------------------------------------------------- ours


class Ours:
    """The same work with our client's own code."""

    def __init__(self) -> None:
        self.numbers = values()
        self.grid = Grid(NUM_NEIGHBOURS + 1, CLIP, LEVELS / (2 * CLIP))
        self.mask_keys = [Secret.fresh() for _ in range(NUM_NEIGHBOURS + 1)]
        self.secrets = (Secret.fresh(), Secret.fresh())
        self.others = Others(NUM_NEIGHBOURS + 1)

    def work(self) -> Work:
        return {
            "upload": lambda: self.upload,
            "upload, random": lambda: lambda: self.upload(np.random.default_rng(1)),
            "stage": self.stage,
            "split": lambda: lambda: self.split(*self.secrets[:1]),
            "split both": lambda: lambda: self.split(*self.secrets),
            "combine": lambda: self.combine(*self.secrets[:1]),
            "combine both": lambda: self.combine(*self.secrets),
        }

    def upload(self, rng: np.random.Generator | None = None) -> int:
        rows = self.grid.quantise_values(self.numbers, rng)
        apply_row_masks(rows, [RowMask(key, 0, None) for key in self.mask_keys])
        return encoded_bytes(rows)

    def stage(self) -> Run:
        client = LoneClient(self.others, 0, SecureAggregationSettings())
        delivery = client.share()

        def run() -> int:
            client.open(delivery)
            rows = self.grid.quantise_values(self.numbers)
            client.mask(rows)
            return encoded_bytes(rows)

        return run

    def split(self, *secrets: Secret) -> int:
        made = [shamir.split_secret(secret, POINTS, THRESHOLD) for secret in secrets]
        return sum(len(shares[0].encode()) for shares in made)

    def combine(self, *secrets: Secret) -> Run:
        made = [shamir.split_secret(secret, POINTS, THRESHOLD)[:THRESHOLD] for secret in secrets]
        checks = [
            shamir.commits_to(shamir.commit_to_secret(secret, b"session", 0), b"session", 0)
            for secret in secrets
        ]
        shamir._lagrange_at_zero.cache_clear()

        def run() -> int:
            for shares, check in zip(made, checks, strict=True):
                shamir.combine_shares(shares, THRESHOLD, check)
            return 0

        return run


# ----------------------------------------------------------------------------------------- Flower's


class Flower:
    """Flower in its own environment and process."""

    def __init__(self, environment: Path) -> None:
        python = environment / "bin" / "python"
        if not python.exists():
            print(f"installing {FLOWER} into {environment}", file=sys.stderr)
            venv.create(environment, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", FLOWER]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        self._process = subprocess.Popen(
            [python, FLOWERS_SIDE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FLWR_TELEMETRY_ENABLED": "0"},
        )

    def turn(self, name: str, runs: int) -> tuple[float, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(runs, name, file=self._process.stdin, flush=True)
        milliseconds, num_bytes = json.loads(self._process.stdout.readline())
        return milliseconds, num_bytes

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# ---------------------------------------------------------------------------------------- the table


def compare(flower: Flower, ours: Work, turns: int, runs: int) -> list[Row]:
    print(f"{FLOWER}; {NUM_VALUES} values, {NUM_NEIGHBOURS} neighbours, ", end="")
    print(f"{NUM_SHARES} shares of which {THRESHOLD} open; CPU ms, {turns} turns of {runs}")
    print(f"{'':22} {'Flower':>10} {'ours':>8} {'ratio':>7} {'wanted':>7}   bytes: Flower, ours")
    ratio_rows = []
    for label, our_name, flowers_name, wanted in ROWS:
        timed = [
            (flower.turn(flowers_name, runs), turn(ours[our_name], runs)) for _ in range(turns)
        ]
        theirs, mine = (statistics.median(t[side][0] for t in timed) for side in (0, 1))
        ratio = statistics.median(t[0][0] / t[1][0] for t in timed)
        least = f">= {wanted}" if wanted else ""
        sizes = f"{timed[0][0][1]:9,} {timed[0][1][1]:9,}" if timed[0][0][1] else ""
        print(
            f"{label:22} {theirs:10.2f} {mine:8.2f} {ratio:7.1f} {least:>7}   {sizes}", flush=True
        )
        if wanted is not None:
            ratio_rows.append(
                Row(f"Flower's SecAgg+ over ours, CPU: {label}", wanted, ratio, "x", True)
            )
    return ratio_rows


def rows(environment: Path | None = None, turns: int = 5, runs: int = 3) -> list[Row]:
    torch.set_num_threads(1)
    flower = Flower(environment or cache_folder() / "benchmarks" / FLOWER)
    try:
        return compare(flower, Ours().work(), turns, runs)
    finally:
        flower.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--environment", type=Path, help="where Flower is installed")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--runs", type=int, default=3, help="in a turn")
    asked = parser.parse_args()
    rows(asked.environment, asked.turns, asked.runs)


if __name__ == "__main__":
    main()
