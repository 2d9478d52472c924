"""A sum opened by a committee against a session of all clients: CPU seconds and bytes.

    python benchmarks/secagg_committee.py --sizes 100 1000 10000 --session-up-to 1000

Clients, members and server are the real ones, with default settings but for `corrupt: 0`, on one
host, 1,000 values each. Messages are passed in memory and counted as the codec would write them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from secagg_simulation import CONFIG_HASH, NUM_VALUES, Ask, Upload

from securefg.federation.roles import Replies
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.secagg.derive import MaskContext
from securefg.secagg.forms import Secure, make_clients, make_collector, member_keys_of
from securefg.secagg.keys import Identity
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings


class World:
    """All clients on one host, and their server; `up` and `down` count bytes."""

    def __init__(self, num_clients: int, form: str, folder: Path) -> None:
        settings = SecureAggregationSettings.model_validate({"form": form, "corrupt": 0})
        identities = dict(enumerate(Identity.fresh() for _ in range(num_clients)))
        roster = [identity.public for identity in identities.values()]
        keys = member_keys_of(settings, CONFIG_HASH, folder, identities, roster)
        about = (settings, CONFIG_HASH, identities, roster, keys, folder)
        self._clients = make_clients(*about, {}, {}, None, {})
        secure = Secure(settings, CONFIG_HASH, roster, keys)
        tell = (lambda client, reason: None, lambda client, reason: None)
        self._server = make_collector(secure, self._exchange, {}, {}, *tell)
        stream, shape = np.random.default_rng(0), (num_clients, NUM_VALUES)
        self._rows = stream.integers(0, 2**32, shape, np.uint64).astype(np.uint32)
        self.up = self.down = self.exchanges = 0

    def run(self) -> float:
        """Return the CPU seconds of one sum, which is checked."""
        began = time.process_time()
        opened = self._server.collect(Ask(model=torch.zeros(4)), Upload, None, 1)
        total = opened.total("numbers", self._context)
        seconds = time.process_time() - began
        assert np.array_equal(total, self._rows.sum(0, dtype=np.uint32))
        return seconds

    @property
    def _context(self) -> MaskContext:
        return MaskContext(1, Upload.kind, "numbers", NUM_VALUES, 32)

    def _exchange(
        self, request: Message, reply: type[Message], clients: Clients | None
    ) -> Replies[Any]:
        numbers = list(range(len(self._rows))) if clients is None else clients.numbers()
        turn, enclosed = Turn(1, 1, Clients.of(numbers)), {}
        if isinstance(request, Ask):
            self._clients.check_reply(Upload.kind, turn, [])
            self._clients.check_request(request_hash(request))
            masked = self._rows[numbers]
            self._clients.mask(masked, numbers, self._context)
            answer: Message = Upload(numbers=torch.from_numpy(masked.view("<i4")))
            enclosed = self._clients.enclose_keys(Upload.kind)
        else:
            answer = self._clients.handle(request, turn)
        self._count(request, answer, enclosed, len(numbers))
        return Replies(answer, turn.clients, (), enclosed=enclosed)

    def _count(
        self, request: Message, reply: Message, enclosed: dict[str, Any], receivers: int
    ) -> None:
        personal = {n for n, d in request.declarations.items() if d.scope == "personal"}
        shared = {n: v for n, v in request.values().items() if n not in personal}
        own = {n: v for n, v in request.values().items() if n in personal}
        self.down += receivers * len(codec.encode_fields(shared)) + len(codec.encode_fields(own))
        self.up += len(codec.encode_fields({**reply.values(), **enclosed}))
        self.exchanges += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--session-up-to", type=int, default=1000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("clients  form        CPU s   exchanges   MB up   MB down")
    for size in asked.sizes:
        for form in ("committee", "session"):
            if form == "session" and size > asked.session_up_to:
                continue
            with tempfile.TemporaryDirectory() as folder:
                world = World(size, form, Path(folder))
                seconds = world.run()
            print(
                f"{size:7,}  {form:9} {seconds:8.2f} {world.exchanges:8} {world.up / 1e6:10.2f} "
                f"{world.down / 1e6:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
