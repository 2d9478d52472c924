"""What it costs the server to open the sum when many clients fell silent after sharing their keys.

    python benchmarks/secagg_recovery.py                  # 500 clients, 100 k values, 30 % dropped
    python benchmarks/secagg_recovery.py --graph sparse --repeats 7

A whole session runs, all clients on one host in memory, on the complete graph and on the sparse one
(the first takes a minute or two to set up). CPU seconds are counted from the moment that the shares
are in: sort and combine them, agree on the masks of those who dropped out, add up the uploads and
take all masks off. The sum must equal the survivors' plain sum in every bit.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from limits import Row
from torch import Tensor

from securefg.federation.roles import Replies
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.secagg import server, shamir
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import MaskContext
from securefg.secagg.graph import GraphParameters, choose_parameters
from securefg.secagg.keys import Identity
from securefg.secagg.ring import RingArray
from securefg.secagg.server import Aggregator, Opened
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings, Threat

TARGET_SECONDS = {"complete": 20.0, "sparse": 3.0}
CONFIG_HASH, SETTINGS = "0123456789ab", SecureAggregationSettings(dropout=0.3)


class Ask(Message, kind="secagg_recovery.Ask"):
    model: Tensor = public("global model")


class Upload(Message, kind="secagg_recovery.Upload"):
    numbers: Tensor = private("sum", "numbers", means=Other())


def complete(num_clients: int, threat: Threat) -> GraphParameters:
    return GraphParameters(num_clients, num_clients - 1, 2 * num_clients // 3 + 1)


GRAPHS: dict[str, Callable[[int, Threat], GraphParameters]] = {
    "complete": complete,
    "sparse": choose_parameters,
}


class Host:
    """All clients, in memory; those in `silent` share their keys and do not upload."""

    def __init__(self, rows: RingArray, silent: set[int]) -> None:
        identities = [Identity.fresh() for _ in range(len(rows))]
        self.public = [identity.public for identity in identities]
        self._rows, self._silent = rows, silent
        self._clients = SecureClients(
            SETTINGS, CONFIG_HASH, dict(enumerate(identities)), self.public
        )

    def exchange(
        self, request: Message, reply: type[Message], clients: Clients | None
    ) -> Replies[Any]:
        numbers = list(range(len(self._rows))) if clients is None else clients.numbers()
        if isinstance(request, Ask):
            numbers = [number for number in numbers if number not in self._silent]
            self._clients.check_request(request_hash(request))
            return Replies(self._upload(numbers), Clients.of(numbers), ())
        said = self._clients.handle(request, Turn(1, 1, Clients.of(numbers)))
        return Replies(said, Clients.of(numbers), ())

    def _upload(self, numbers: list[int]) -> Upload:
        masked = self._rows[numbers]
        self._clients.mask(masked, numbers, context(masked))
        return Upload(numbers=torch.from_numpy(masked.view("<i4")))


def context(rows: RingArray) -> MaskContext:
    return MaskContext(1, Upload.kind, "numbers", rows.shape[1], 32)


def session(kind: str, host: Host) -> tuple[Opened, tuple[Any, ...]]:
    """A session up to its last message, and what the server then rebuilds secrets from."""
    with (
        patch("securefg.secagg.client.choose_parameters", GRAPHS[kind]),
        patch("securefg.secagg.server.choose_parameters", GRAPHS[kind]),
        patch("securefg.secagg.server.Secrets") as secrets,
    ):
        aggregator = Aggregator(SETTINGS, CONFIG_HASH, host.public, host.exchange)
        opened = aggregator.collect(Ask(model=torch.zeros(4)), Upload, None, 1)
    return opened, secrets.call_args.args


def recover(
    opened: Opened, arguments: tuple[Any, ...], wanted: RingArray
) -> tuple[float, float, float]:
    """CPU seconds to rebuild secrets and roots, to unmask the sum, and both."""
    shamir._lagrange_at_zero.cache_clear()
    began = time.process_time()
    unmasking = server.Secrets(*arguments).make_unmasking()
    rebuilt = time.process_time()
    total = Opened(opened.replies, opened.survivors, unmasking).total("numbers", context(wanted))
    ended = time.process_time()
    if not np.array_equal(total, wanted.sum(0, dtype=np.uint32)):
        raise SystemExit("the unmasked sum is not the sum of the survivors' values")
    return rebuilt - began, ended - rebuilt, ended - began


def measured(
    num_clients: int, num_values: int, dropped: float, graphs: list[str], repeats: int
) -> dict[str, float]:
    """CPU seconds of the recovery on each graph, with a printed line for each."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2**32, (num_clients, num_values), np.uint32)
    silent = set(rng.permutation(num_clients)[: round(dropped * num_clients)].tolist())
    print(f"{num_clients} clients, {num_values} values, {len(silent)} dropped; CPU seconds")
    print("graph      degree   t   secrets   unmask    total   target   exact")
    bytes_by_kind = {}
    for kind in graphs:
        opened, arguments = session(kind, Host(numbers, silent))
        plain = numbers[list(opened.survivors)]
        timed = [recover(opened, arguments, plain) for _ in range(repeats)]
        secrets, unmask, total = (statistics.median(part) for part in zip(*timed, strict=True))
        graph = GRAPHS[kind](num_clients, SETTINGS.threat_among(num_clients))
        print(
            f"{kind:9}  {graph.degree:6} {graph.threshold:3}  {secrets:8.2f} {unmask:8.2f} "
            f"{total:8.2f}  < {TARGET_SECONDS[kind]:5.1f}     yes",
            flush=True,
        )
        bytes_by_kind[kind] = total
    return bytes_by_kind


def rows() -> list[Row]:
    found = measured(500, 100_000, 0.3, sorted(GRAPHS), 3)
    name = "the sum of 500 clients, 150 of them silent, CPU, {} graph"
    return [Row(name.format(kind), TARGET_SECONDS[kind], found[kind], "s") for kind in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--dropped", type=float, default=0.3)
    parser.add_argument("--graph", choices=sorted(GRAPHS), action="append")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    graphs = asked.graph or sorted(GRAPHS)
    measured(asked.clients, asked.values, asked.dropped, graphs, asked.repeats)


if __name__ == "__main__":
    main()
