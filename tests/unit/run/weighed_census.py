"""FedGL with a census that it must not have: each client's size, summed over a node's holders."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from securefg.federation.roles import PublicInfo, State, require_replies
from securefg.methods.fedgl import algorithm as fedgl
from securefg.methods.fedgl import messages
from securefg.methods.fedgl.messages import Count, Globals, Held, Update
from securefg.privacy.influence import NOTHING
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Holdings
from securefg.protocol.messages import Message, private
from securefg.settings.execution import TrainingSettings

NAME = "tests.unit.run.weighed_census"


class Weighed(Message, kind="weighed_census.Weighed"):
    holds: Tensor = private(
        "sum", "1 at each held node", means=Holdings(), rows="node", constant=True
    )
    mass: Tensor = private(
        "sum", "the size at each held node", means=Holdings(), rows="node", constant=True
    )


class Settings(fedgl.Settings):
    name: Literal["tests.unit.run.weighed_census"] = NAME  # type: ignore[assignment]


class Client(fedgl.Client):
    def handle(self, request: Message, turn: Turn) -> Message:
        if not isinstance(request, Count):
            return super().handle(request, turn)
        holds = self._held(request).holds
        assert holds is not None
        return Weighed(holds=holds, mass=float(len(self._node_ids)) * holds)


class Server(fedgl.FedGLServer):
    def _counted(self, number: int) -> State:
        count = Count(index_size=self._info.num_nodes)
        replies = require_replies(self._cohort.ask(count, Weighed), number)
        return {"holds": torch.round(replies.sum("holds"))}


def planned(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    kept = [r for r in messages.planned(settings, training, info) if r.message is not Held]
    nodes = info.num_nodes
    return [
        *kept,
        PlannedRelease(Weighed, "holds", 0, nodes, nodes, bound=1.0, edge=NOTHING, bare=True),
        PlannedRelease(Weighed, "mass", 0, nodes, nodes, bound=nodes, edge=NOTHING, bare=True),
    ]


METHOD = replace(
    fedgl.METHOD,
    name=NAME,
    settings=Settings,
    messages=(Globals, Update, Count, Weighed),
    replies={Globals: Update, Count: Weighed},
    planned=planned,
    make_host=Client,
    make_server=Server,
)
