"""What it costs to keep a client's masked upload within its bound, by the ways that are known.

    python benchmarks/bounded_inputs.py

The check of the sum is what we do; it is run here as the server runs it. Proofs are not built: what
is measured is one group operation (X25519, the only one at hand that is fast) and one pass of
random signs over the values. The rest is counting: the least number of them that each way takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from securefg.foundation.errors import RoundAborted
from securefg.privacy.defences.plain import Plain
from securefg.privacy.masking_plan import MaskedField
from securefg.secagg.keys import KeyPair
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.prg import Keystream
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring
from securefg.secagg.secret import Secret

NUM_VALUES: Final = 1_000_000
NUM_CLIENTS: Final = 100
BITS: Final = 16
PROJECTIONS: Final = 128
POINT_BYTES: Final = 32


def cpu_ms(work: Callable[[], object], repeats: int = 5) -> float:
    """The least of several runs: the machine is shared."""
    times_ms = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times_ms.append(1e3 * (time.process_time() - began))
    return min(times_ms)


def field() -> MaskedField:
    scale = 2.0 ** math.floor(math.log2(2**29 / (NUM_CLIENTS * 16.0)))
    return MaskedField(Plain(), Grid(NUM_CLIENTS, 16.0, scale, dim=NUM_VALUES, ring=Ring(32)))


def group_operation_ms() -> float:
    pair, peer = KeyPair.fresh(), KeyPair.fresh().public
    return cpu_ms(lambda: [pair.agree_root(peer, b"") for _ in range(200)]) / 200


def projection_ms() -> float:
    """One sum of the values under random signs, drawn from a keystream."""
    values = np.ones(NUM_VALUES, np.int32)

    def project() -> int:
        signs = np.unpackbits(np.frombuffer(Keystream(Secret.fresh()).read(NUM_VALUES // 8), "u1"))
        return int(2 * np.dot(values, signs) - values.sum())

    return cpu_ms(project)


def caught(num_wrong: int, trials: int = 200) -> float:
    """How often the check of a sum sees a client that put anything at so many places."""
    prime_field, rng, seen = field(), np.random.default_rng(0), 0
    for _ in range(trials):
        total = np.zeros(1000, np.uint32)
        total[:num_wrong] = rng.integers(0, 2**32, num_wrong, np.uint64).astype(np.uint32)
        try:
            prime_field.require_bound(total, NUM_CLIENTS, "a sum")
        except RoundAborted:
            seen += 1
    return seen / trials


def main() -> None:
    total, one = np.zeros(NUM_VALUES, np.uint32), field()
    check = cpu_ms(lambda: one.require_bound(total, NUM_CLIENTS, "a sum"))
    mask = cpu_ms(lambda: apply_masks(total, [Mask(Secret.fresh(), Sign.ADD)]))
    operation, projection = group_operation_ms(), projection_ms()
    print(f"{NUM_VALUES} values, {NUM_CLIENTS} clients; CPU ms")
    print(f"one mask                                {mask:12.2f}")
    print(f"check of the sum, at the server         {check:12.2f}   0 bytes")
    for places in (1, 5, 20):
        print(f"  anything at {places:2} places is seen in      {100 * caught(places):9.1f} %")
    print(f"one group operation                     {operation:12.4f}")
    every = NUM_VALUES * operation
    print(
        f"a commitment a value, at least          {every:12.0f}   {NUM_VALUES * POINT_BYTES} bytes"
    )
    bits = 2 * BITS * every
    size = BITS * NUM_VALUES * POINT_BYTES
    print(f"a proof for every bit of {BITS}, at least    {bits:12.0f}   {size} bytes")
    some = PROJECTIONS * (projection + 2 * BITS * operation)
    size = PROJECTIONS * BITS * POINT_BYTES
    print(f"{PROJECTIONS} projections with proofs of their bits {some:11.0f}   {size} bytes")
    print(f"  and what ties them to the upload      {every / math.log2(NUM_VALUES):12.0f}")


if __name__ == "__main__":
    main()
