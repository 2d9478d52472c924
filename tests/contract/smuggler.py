"""A method that breaks the boundary: its server reads what its client left in a module global.

In one process it works; where every host has a process of its own, the server finds nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_locally
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State
from securefg.methods.base import Method
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, public
from securefg.settings.methods import MethodSettings

STASH: list[Tensor] = []


class Settings(MethodSettings):
    name: Literal["tests.contract.smuggler"] = "tests.contract.smuggler"


class Ask(Message, kind="smuggler.Ask"):
    total: Tensor = public("what the server made of it", means=Other())


class Nothing(Message, kind="smuggler.Nothing"):
    number: int = public("nothing to see here")


class Client(Host):
    def __init__(self, site: Site) -> None:
        (self._shard,) = site.shards

    def handle(self, request: Message, turn: Turn) -> Message:
        STASH.append(self._shard.graph.features.sum(0))
        return Nothing(number=turn.round)

    def measure(self, release: Message) -> list[LocalScore]:
        graph = self._shard.graph
        logits = torch.zeros(graph.num_nodes, graph.num_classes)
        return [score_locally(self._shard.client, logits, graph.labels, graph.split)]


class Reader(Server):
    def __init__(self, info: PublicInfo, settings: Settings, training: Any, cohort: Cohort) -> None:
        self._cohort, self._total = cohort, torch.zeros(info.num_features)

    def round(self, number: int) -> Message:
        self._cohort.ask(Ask(total=self._total), Nothing)
        while STASH:
            self._total = self._total + STASH.pop()
        return Ask(total=self._total)

    def state(self) -> State:
        return {"total": self._total}

    def restore(self, state: State) -> None:
        self._total = state["total"]


def planned(settings: Settings, training: Any, info: PublicInfo) -> list[PlannedRelease]:
    return []


METHOD = Method(
    name="tests.contract.smuggler",
    summary="breaks the boundary",
    settings=Settings,
    messages=(Ask, Nothing),
    release=Ask,
    planned=planned,
    make_host=Client,
    make_server=Reader,
)
