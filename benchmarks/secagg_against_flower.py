"""Our client beside Flower's SecAgg+ on the same work, in one run.

    python benchmarks/secagg_against_flower.py

Flower's pins are not ours, so its own functions run in a process of an environment of their own,
made in the cache on the first run. Both sides take turns of a few runs; a turn counts with its
median run, and the table shows medians over the turns: CPU milliseconds, and the ratios within a
turn. With `--runs 1` every run finds cold caches and has fresh memory to map.

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
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FLOWER = "flwr==1.41.0"
NUM_VALUES, NUM_NEIGHBOURS, NUM_SHARES, THRESHOLD = 1_000_000, 10, 101, 67
CLIP, LEVELS = 8.0, 1 << 22  # Flower's defaults: 2^22 levels over [-8, 8], modulus 2^32

Work = dict[str, Callable[[], Callable[[], int]]]
"""By name: prepares a piece of work, which then runs once and gives the bytes that it sends."""

ROWS = (  # name, our work, Flower's work, the least ratio wanted
    ("upload, keys at hand", "upload", "upload", 4),
    ("  rounding at random", "upload, random", "upload", None),
    ("upload stage", "stage", "stage", 4),
    ("split, 32 bytes", "split", "split", 500),
    ("split, both secrets", "split both", "split both", 500),
    ("combine, 32 bytes", "combine", "combine", 500),
    ("combine, both secrets", "combine both", "combine both", 500),
)


def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(1, NUM_VALUES)).astype(np.float32)


def turn(work: Callable[[], Callable[[], int]], runs: int) -> tuple[float, int]:
    """CPU milliseconds of the median run, and bytes."""
    timed = []
    for _ in range(runs):
        ready = work()
        began = time.process_time()
        num_bytes = ready()
        timed.append(1e3 * (time.process_time() - began))
    return statistics.median(timed), num_bytes


# ----------------------------------------------------------------------------------------- Flower's


def flowers_work() -> Work:
    """Calls into Flower; it is imported here, for it lives in the other environment only."""
    from flwr.common import ndarrays_to_parameters
    from flwr.common.secure_aggregation.crypto.shamir import combine_shares
    from flwr.common.secure_aggregation.secaggplus_constants import Key
    from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat

    # The package exports a function under the module's own name.
    client = importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
    numbers = [values()]
    seeds = [os.urandom(32) for _ in range(NUM_NEIGHBOURS)]
    own = client.private_key_to_bytes(client.generate_key_pairs()[0])
    secrets = (os.urandom(32), own)

    def upload() -> int:
        vector = client.quantize(numbers, CLIP, LEVELS)
        vector = client.factor_combine(LEVELS, vector)
        shapes = [array.shape for array in vector]
        vector = client.parameters_addition(
            vector, client.pseudo_rand_gen(secrets[0], 1 << 32, shapes)
        )
        for seed in seeds:
            mask = client.pseudo_rand_gen(seed, 1 << 32, shapes)
            vector = client.parameters_addition(vector, mask)
        vector = client.parameters_mod(vector, 1 << 32)
        return sum(len(client.ndarray_to_bytes(array)) for array in vector)

    def stage() -> Callable[[], int]:
        pairs = [client.generate_key_pairs() for _ in range(NUM_NEIGHBOURS)]
        publics = {n + 1: client.public_key_to_bytes(pair[1]) for n, pair in enumerate(pairs)}
        state = client.SecAggPlusState(
            nid=0, threshold=7, clipping_range=CLIP, target_range=LEVELS, mod_range=1 << 32
        )
        state.max_weight, state.sk1, state.rd_seed = 1000.0, own, secrets[0]
        state.public_keys_dict = {n: (key, key) for n, key in publics.items()}
        private = client.bytes_to_private_key(own)
        state.ss2_dict = {
            n: client.generate_shared_key(private, client.bytes_to_public_key(key))
            for n, key in publics.items()
        }
        state.rd_seed_share_dict, state.sk1_share_dict = {}, {}
        boxes = [
            client.encrypt(
                state.ss2_dict[n], share_keys_plaintext_concat(n, 0, bytes(52), bytes(324))
            )
            for n in publics
        ]
        request = {Key.CIPHERTEXT_LIST: boxes, Key.SOURCE_LIST: list(publics)}
        trained = ndarrays_to_parameters(numbers)

        def run() -> int:
            reply = client._collect_masked_vectors(state, request, 1000, trained)
            return sum(map(len, reply[Key.MASKED_PARAMETERS]))

        return run

    def split(*shared: bytes) -> int:
        made = [client.create_shares(secret, THRESHOLD, NUM_SHARES) for secret in shared]
        return sum(len(shares[0]) for shares in made)

    made = [client.create_shares(secret, THRESHOLD, NUM_SHARES)[:THRESHOLD] for secret in secrets]

    def combine(num_secrets: int) -> int:
        found = [combine_shares(shares) for shares in made[:num_secrets]]
        if tuple(found) != secrets[:num_secrets]:
            raise SystemExit("Flower's shares do not give the secret")
        return 0

    return {
        "upload": lambda: upload,
        "stage": stage,
        "split": lambda: lambda: split(secrets[0]),
        "split both": lambda: lambda: split(*secrets),
        "combine": lambda: lambda: combine(1),
        "combine both": lambda: lambda: combine(2),
    }


def serve_flower() -> None:
    """Takes the turns that are asked for, a number of runs and a name on each line."""
    out, sys.stdout = sys.stdout, sys.stderr
    work = flowers_work()
    for line in sys.stdin:
        runs, _, name = line.strip().partition(" ")
        print(json.dumps(turn(work[name], int(runs))), file=out, flush=True)


class Flower:
    """Flower in its own environment and process."""

    def __init__(self, environment: Path) -> None:
        python = environment / "bin" / "python"
        if not python.exists():
            print(f"installing {FLOWER} into {environment}", file=sys.stderr)
            venv.create(environment, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", FLOWER]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        self._process = subprocess.Popen(
            [python, __file__, "--serve"],
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


# --------------------------------------------------------------------------------------------- ours


def our_work() -> Work:
    """The same with ours; the other environment has none of it."""
    import torch
    from secagg_growth import LoneClient, Others

    from securefg import codec
    from securefg.secagg import shamir
    from securefg.secagg.masks import RowMask, apply_row_masks
    from securefg.secagg.quantise import Grid
    from securefg.secagg.secret import Secret
    from securefg.secagg.settings import SecureAggregationSettings

    torch.set_num_threads(1)
    numbers = values()
    grid = Grid(NUM_NEIGHBOURS + 1, CLIP, LEVELS / (2 * CLIP))
    keys = [Secret.fresh() for _ in range(NUM_NEIGHBOURS + 1)]
    secrets = (Secret.fresh(), Secret.fresh())
    points = range(1, NUM_SHARES + 1)
    others = Others(NUM_NEIGHBOURS + 1)

    def encoded(rows: Any) -> int:
        return len(codec.encode_fields({"numbers": torch.from_numpy(rows.view("<i4"))}))

    def upload(rng: np.random.Generator | None = None) -> int:
        rows = grid.quantise(numbers, rng)
        apply_row_masks(rows, [RowMask(key, 0, None) for key in keys])
        return encoded(rows)

    def stage() -> Callable[[], int]:
        client = LoneClient(others, 0, SecureAggregationSettings())
        delivery = client.share()

        def run() -> int:
            client.open(delivery)
            rows = grid.quantise(numbers)
            client.mask(rows)
            return encoded(rows)

        return run

    def split(*shared: Secret) -> int:
        made = [shamir.split(secret, points, THRESHOLD) for secret in shared]
        return sum(len(shares[0].encode()) for shares in made)

    def combine(*shared: Secret) -> Callable[[], int]:
        made = [shamir.split(secret, points, THRESHOLD)[:THRESHOLD] for secret in shared]
        checks = [
            shamir.commits_to(shamir.commitment(secret, b"session", 0), b"session", 0)
            for secret in shared
        ]
        shamir._lagrange_at_zero.cache_clear()

        def run() -> int:
            for shares, check in zip(made, checks, strict=True):
                shamir.combine(shares, THRESHOLD, check)
            return 0

        return run

    return {
        "upload": lambda: upload,
        "upload, random": lambda: lambda: upload(np.random.default_rng(1)),
        "stage": stage,
        "split": lambda: lambda: split(secrets[0]),
        "split both": lambda: lambda: split(*secrets),
        "combine": lambda: combine(secrets[0]),
        "combine both": lambda: combine(*secrets),
    }


# ---------------------------------------------------------------------------------------- the table


def compare(flower: Flower, ours: Work, turns: int, runs: int) -> None:
    print(f"{FLOWER}; {NUM_VALUES} values, {NUM_NEIGHBOURS} neighbours, ", end="")
    print(f"{NUM_SHARES} shares of which {THRESHOLD} open; CPU ms, {turns} turns of {runs}")
    print(f"{'':22} {'Flower':>10} {'ours':>8} {'ratio':>7} {'wanted':>7}   bytes: Flower, ours")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--environment", type=Path, help="where Flower is installed")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--runs", type=int, default=3, help="in a turn")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve_flower()
        return
    from securefg.data.cache import cache_folder

    flower = Flower(asked.environment or cache_folder() / "benchmarks" / FLOWER)
    try:
        compare(flower, our_work(), asked.turns, asked.runs)
    finally:
        flower.close()


if __name__ == "__main__":
    main()
