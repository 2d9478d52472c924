"""Flower's side of `secagg_against_flower.py`, which starts this in Flower's own environment.

Takes the turns that are asked for, a number of runs and a name on each line of the input.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from flwr.common import ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat
from secagg_turns import (
    CLIP,
    LEVELS,
    NUM_NEIGHBOURS,
    NUM_SHARES,
    THRESHOLD,
    Run,
    Work,
    turn,
    values,
)

# The package exports a function under the module's own name.
client = importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
MODULUS = 1 << 32


class Flowers:
    """One client of Flower's, by calls into its own functions."""

    def __init__(self) -> None:
        self.numbers = [values()]
        self.pair_seeds = [os.urandom(32) for _ in range(NUM_NEIGHBOURS)]
        self.own_key = client.private_key_to_bytes(client.generate_key_pairs()[0])
        self.secrets = (os.urandom(32), self.own_key)
        self.shares = [
            client.create_shares(secret, THRESHOLD, NUM_SHARES)[:THRESHOLD]
            for secret in self.secrets
        ]

    def work(self) -> Work:
        return {
            "upload": lambda: self.upload,
            "stage": self.stage,
            "split": lambda: lambda: self.split(*self.secrets[:1]),
            "split both": lambda: lambda: self.split(*self.secrets),
            "combine": lambda: lambda: self.combine(1),
            "combine both": lambda: lambda: self.combine(2),
        }

    def upload(self) -> int:
        """Quantise, mask and encode; the seeds of all masks are at hand."""
        vector = client.quantize(self.numbers, CLIP, LEVELS)
        vector = client.factor_combine(LEVELS, vector)
        shapes = [array.shape for array in vector]
        for seed in (self.secrets[0], *self.pair_seeds):
            mask = client.pseudo_rand_gen(seed, MODULUS, shapes)
            vector = client.parameters_addition(vector, mask)
        vector = client.parameters_mod(vector, MODULUS)
        return sum(len(client.ndarray_to_bytes(array)) for array in vector)

    def stage(self) -> Run:
        """All between the delivery of the shares and the upload."""
        pairs = [client.generate_key_pairs() for _ in range(NUM_NEIGHBOURS)]
        publics = {n + 1: client.public_key_to_bytes(pair[1]) for n, pair in enumerate(pairs)}
        state = self._state(publics)
        boxes = [
            client.encrypt(key, share_keys_plaintext_concat(n, 0, bytes(52), bytes(324)))
            for n, key in state.ss2_dict.items()
        ]
        request = {Key.CIPHERTEXT_LIST: boxes, Key.SOURCE_LIST: list(publics)}
        trained = ndarrays_to_parameters(self.numbers)

        def run() -> int:
            reply = client._collect_masked_vectors(state, request, 1000, trained)
            return sum(map(len, reply[Key.MASKED_PARAMETERS]))

        return run

    def _state(self, publics: dict[int, bytes]) -> Any:
        """A client's state after it shared its keys with these neighbours."""
        state = client.SecAggPlusState(
            nid=0, threshold=7, clipping_range=CLIP, target_range=LEVELS, mod_range=MODULUS
        )
        state.max_weight, state.sk1, state.rd_seed = 1000.0, self.own_key, self.secrets[0]
        state.public_keys_dict = {n: (key, key) for n, key in publics.items()}
        private = client.bytes_to_private_key(self.own_key)
        state.ss2_dict = {
            n: client.generate_shared_key(private, client.bytes_to_public_key(key))
            for n, key in publics.items()
        }
        state.rd_seed_share_dict, state.sk1_share_dict = {}, {}
        return state

    def split(self, *secrets: bytes) -> int:
        made = [client.create_shares(secret, THRESHOLD, NUM_SHARES) for secret in secrets]
        return sum(len(shares[0]) for shares in made)

    def combine(self, num_secrets: int) -> int:
        found = [combine_shares(shares) for shares in self.shares[:num_secrets]]
        if tuple(found) != self.secrets[:num_secrets]:
            raise SystemExit("Flower's shares do not give the secret")
        return 0


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr  # whatever Flower prints is no answer
    work = Flowers().work()
    for line in sys.stdin:
        runs, _, name = line.strip().partition(" ")
        print(json.dumps(turn(work[name], int(runs))), file=out, flush=True)


if __name__ == "__main__":
    main()
