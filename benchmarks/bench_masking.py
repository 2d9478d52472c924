"""Masking costs little more than the keystream itself: fused masking against raw AES-256-CTR.

    python benchmarks/bench_masking.py

Both run in turn, and the median of the rounds' ratios is printed, so that a busy machine slows
both alike. Also: a client of 1 M parameters and 10 neighbours, and a host of many clients.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from limits import Row

from securefg.secagg.masks import Mask, RowMask, Sign, apply_masks, apply_row_masks
from securefg.secagg.prg import CHUNK_BYTES
from securefg.secagg.secret import Secret

DIM, NUM_NEIGHBOURS, NUM_ROUNDS = 1 << 20, 10, 15
TARGET = 0.70


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def raw_aes_ctr(keys: list[Secret], num_bytes: int) -> None:
    zeros, buffer = bytes(CHUNK_BYTES), bytearray(CHUNK_BYTES)
    for key in keys:
        encryptor = Cipher(AES(key.reveal()), CTR(bytes(16))).encryptor()
        for _ in range(num_bytes // CHUNK_BYTES):
            encryptor.update_into(zeros, buffer)


def against_raw(bits: int) -> float:
    keys = [Secret.fresh() for _ in range(NUM_NEIGHBOURS)]
    masks = [Mask(key, sign) for key, sign in zip(keys, list(Sign) * 5, strict=True)]
    vector = np.zeros(DIM, f"<u{bits // 8}")
    timed = [
        (
            seconds(lambda: raw_aes_ctr(keys, vector.nbytes)),
            seconds(lambda: apply_masks(vector, masks)),
        )
        for _ in range(NUM_ROUNDS)
    ]
    raw, fused = (statistics.median(column) for column in zip(*timed, strict=True))
    ratio = statistics.median(one / other for one, other in timed)
    volume = NUM_NEIGHBOURS * vector.nbytes / 1e9
    print(f"Z_2^{bits}: raw AES-256-CTR {volume / raw:.2f} GB/s, fused {volume / fused:.2f} GB/s")
    print(f"  {DIM} parameters, {NUM_NEIGHBOURS} neighbours: {1e3 * fused:.1f} ms")
    print(f"  ratio {ratio:.2f} (wanted {TARGET:.2f})")
    return ratio


def rows() -> list[Row]:
    name = "masking a million values, speed over the bare keystream"
    return [Row(name, TARGET, against_raw(32), "x", least=True)]


def host(num_clients: int = 1000, degree: int = 30, dim: int = 1000) -> None:
    pairs = [
        (i, (i + s) % num_clients) for i in range(num_clients) for s in range(1, degree // 2 + 1)
    ]
    masks = [RowMask(Secret.fresh(), i, j) for i, j in pairs]
    rows = np.zeros((num_clients, dim), np.uint32)
    took = seconds(lambda: apply_row_masks(rows, masks))
    each = 1e6 * took / len(masks)
    print(
        f"host of {num_clients} clients, {len(masks)} pairs, {dim} values: {took:.2f} s, ", end=""
    )
    print(f"{each:.1f} us a pair")


if __name__ == "__main__":
    for ring_bits in (32, 64):
        against_raw(ring_bits)
    host()
