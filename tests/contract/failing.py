"""FedGL with a client that raises in round 2 and one whose process dies in round 3."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

from securefg.federation.roles import Site
from securefg.methods.fedgl import algorithm as fedgl
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message


class Settings(fedgl.Settings):
    name: Literal["tests.contract.failing"] = "tests.contract.failing"  # type: ignore[assignment]
    deadly: bool = False


class Fragile(fedgl.Client):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._number, self._deadly = site.shards[0].client, site.method.deadly

    def handle(self, request: Message, turn: Turn) -> Message:
        if self._number == 0 and turn.round == 2:
            raise ValueError("secret 12345 must not be in any record")
        if self._number == 1 and turn.round == 3 and self._deadly:
            os._exit(9)
        return super().handle(request, turn)


METHOD = replace(fedgl.METHOD, name="tests.contract.failing", settings=Settings, make_host=Fragile)
