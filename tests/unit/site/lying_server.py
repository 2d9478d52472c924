"""A server with a key of its own that asks one real site whatever it likes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from securefg.data.shard import Shard, save_shards
from securefg.federation.evaluation import LocalScore
from securefg.federation.roles import Host, State
from securefg.protocol import codec
from securefg.protocol.codec import Envelope, Turn
from securefg.protocol.messages import Message
from securefg.site.certificates import Signer
from securefg.site.packets import REQUEST, Packet, Route, seal_packet
from securefg.site.run import SiteRun
from tests.unit.flare.federation_world import World, certificates

SITE = "site-1"
FAILURE = {"results": [{"failed": True}], "lengths": [0]}


class Counted(Host):
    """A host that counts how often it is called."""

    def __init__(self, inner: Host) -> None:
        self.inner, self.calls = inner, 0
        self.fail: Exception | None = None

    def handle(self, request: Message, turn: Turn) -> Message:
        self.calls += 1
        if self.fail is not None:
            raise self.fail
        return self.inner.handle(request, turn)

    def constants(self, num_nodes: int, turn: Turn) -> State:
        self.calls += 1
        return self.inner.constants(num_nodes, turn)

    def measure(self, release: Message) -> list[LocalScore]:
        self.calls += 1
        return self.inner.measure(release)

    def measure_at_end(self, release: Message) -> list[LocalScore]:
        self.calls += 1
        return self.inner.measure_at_end(release)


class LyingServer:
    """Sends signed requests to the first host of one site, each in a round of its own."""

    def __init__(self, world: World, shards: Sequence[Shard] | None = None, **clock: Any) -> None:
        self.world = world
        (self.host_name, *_), self.signer = world.assignment[SITE], server_key()
        self.clients = world.assignment[SITE][self.host_name]
        if shards is not None:
            path = world.kits.home(SITE) / "shards" / f"{self.host_name}.safetensors"
            save_shards(path, tuple(shards))
        self.job = world.job()
        self.site = SiteRun(world.site_kit(SITE), self.job, "job", **clock)
        self.number, self.round = 0, 0
        told = self.tell({"do": "begin", "digest": self.job.digest, "attempt": 1, "after_round": 0})
        assert told == {"ready": True, "standing": [0, ""]}, told
        taken = self.site._taken
        endpoints = taken.endpoints if taken else {}
        self.host = Counted(endpoints[self.host_name].host)
        endpoints[self.host_name] = replace(endpoints[self.host_name], host=self.host)
        self.blob = b""

    def tell(self, content: Mapping[str, Any], blob: bytes = b"") -> Any:
        """The content of the site's reply to a signed packet; its bytes are in `blob`."""
        self.number += 1
        route = Route("job", "localhost", SITE, self.number)
        reply: Packet = self.site.handle(
            seal_packet(self.signer, REQUEST, route, dict(content), blob)
        )
        self.blob = bytes(reply.blob)
        return json.loads(reply.header)["content"]

    def ask(self, kind: str, fields: Mapping[str, Any], **changes: Any) -> Any:
        """What the site answers to a request, in the next round unless `changes` name another."""
        self.round += 1
        envelope = Envelope(0, self.round, 1, "server", self.host_name, kind, self.clients, b"")
        return self._carry("answer", replace(envelope, **changes), fields)

    def measure(self, kind: str, fields: Mapping[str, Any], at_end: bool = False) -> Any:
        nobody = type(self.clients)(())
        envelope = Envelope(0, 0, 0, "runner", "", kind, nobody, b"")
        return self._carry("measure", envelope, fields, at_end=at_end)

    def _carry(self, do: str, envelope: Envelope, fields: Mapping[str, Any], **more: Any) -> Any:
        blob = codec.frame_fields(envelope, fields)
        content = {"do": do, "to": SITE, "hosts": [self.host_name], "lengths": [len(blob)]}
        return self.tell({**content, **more}, blob)

    def num_booked(self) -> int:
        """Lines in the site's books: of requests, and of models that were scored."""
        scores = (self.world.kits.home(SITE) / "scores.jsonl").read_text().splitlines()
        return len(self.world.booked(SITE)) + len(scores)


def server_key() -> Signer:
    return Signer.load(certificates() / "localhost" / "startup")
