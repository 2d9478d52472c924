"""Masked rounds of many clients simulated on one host: CPU seconds of a first and of later ones.

    python benchmarks/secagg_simulation.py

Clients and server are the real ones, default settings (the server may lie); 1,000 values each. All
that clients and server do is counted; messages are passed in memory. `--profile` tells where the
seconds of a later session go.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from typing import Any

import numpy as np
import torch
from limits import Row
from torch import Tensor

from securefg.federation.roles import Replies
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import MaskContext
from securefg.secagg.keys import Identity
from securefg.secagg.server import Aggregator
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings

SIZES = (10, 30, 100, 300)
NUM_VALUES, CONFIG_HASH = 1000, "0123456789ab"


class Ask(Message, kind="simulation.Ask"):
    model: Tensor = public("what is answered")


class Upload(Message, kind="simulation.Upload"):
    numbers: Tensor = private("sum", "what is summed", means=Other())


class Simulation:
    """All clients on one host, and their server."""

    def __init__(self, num_clients: int) -> None:
        settings = SecureAggregationSettings()
        identities = [Identity.fresh() for _ in range(num_clients)]
        known = [identity.public for identity in identities]
        stream = np.random.default_rng(0)
        shape = (num_clients, NUM_VALUES)
        self._rows = stream.integers(0, 2**32, shape, np.uint64).astype(np.uint32)
        self._clients = SecureClients(settings, CONFIG_HASH, dict(enumerate(identities)), known)
        self._server = Aggregator(settings, CONFIG_HASH, known, self._exchange)
        self._round = 0

    def session(self) -> float:
        """CPU seconds of one more session, whose sum is checked."""
        self._round += 1
        began = time.process_time()
        opened = self._server.collect(Ask(model=torch.zeros(4)), Upload, None, self._round)
        total = opened.total("numbers", self._context)
        seconds = time.process_time() - began
        assert np.array_equal(total, self._rows.sum(0, dtype=np.uint32))
        return seconds

    @property
    def _context(self) -> MaskContext:
        return MaskContext(self._round, Upload.kind, "numbers", NUM_VALUES, 32)

    def _exchange(
        self, request: Message, reply: type[Message], clients: Clients | None
    ) -> Replies[Any]:
        numbers = list(range(len(self._rows))) if clients is None else clients.numbers()
        if isinstance(request, Ask):
            self._clients.check_request(request_hash(request))
            masked = self._rows[numbers]
            self._clients.mask(masked, numbers, self._context)
            said: Message = Upload(numbers=torch.from_numpy(masked.view("<i4")))
        else:
            said = self._clients.handle(request, Turn(self._round, 1, Clients.of(numbers)))
        return Replies(said, Clients.of(numbers), ())


def rows(num_clients: int = 300, later: int = 2) -> list[Row]:
    torch.set_num_threads(1)
    Simulation(5).session()
    simulation = Simulation(num_clients)
    spent = {"first": simulation.session()}
    spent["later"] = max(simulation.session() for _ in range(later))
    name = f"a masked session of {num_clients} simulated clients, CPU, {{}}"
    return [Row(name.format(which), 3, seconds, "s") for which, seconds in spent.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--later", type=int, default=3, help="how many later sessions")
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    Simulation(5).session()  # what is imported and tabulated once
    print("clients   first, CPU s   later, CPU s (least of them)")
    for size in asked.sizes:
        simulation = Simulation(size)
        first = simulation.session()
        later = [simulation.session() for _ in range(asked.later)]
        middle = statistics.median(later)
        print(f"{size:7,} {first:14.2f} {middle:14.2f} ({min(later):.2f})", flush=True)
        if asked.profile:
            profile = cProfile.Profile()
            profile.runcall(simulation.session)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
