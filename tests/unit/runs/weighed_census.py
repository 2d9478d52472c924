"""FedGL with a census that it must not have: each client's size, summed over a node's holders."""

from __future__ import annotations

from dataclasses import replace
from types import new_class
from typing import Any, Literal

from torch import Tensor

from securefg.federation.roles import Cohort, PublicInfo, Replies, State
from securefg.methods.fedgl import algorithm as fedgl
from securefg.methods.fedgl import messages
from securefg.methods.fedgl.messages import Globals, Update
from securefg.privacy.influence import NOTHING
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Holdings
from securefg.protocol.messages import Message, private
from securefg.settings.execution import TrainingSettings

NAME = "tests.unit.runs.weighed_census"

FIELDS: dict[str, Any] = {
    **Update.declarations,
    "mass": private(
        "sum", "the size at each held node", means=Holdings(), rows="node", constant=True
    ),
}
BODY = {"__module__": __name__, "__annotations__": dict.fromkeys(FIELDS, Tensor | None), **FIELDS}
KIND = {"kind": "weighed_census.Weighed"}
Weighed: Any = new_class("Weighed", (Message,), KIND, lambda own: own.update(BODY))


class Settings(fedgl.Settings):
    name: Literal["tests.unit.runs.weighed_census"] = NAME  # type: ignore[assignment]


class Client(fedgl.Client):
    def handle(self, request: Message, turn: Turn) -> Message:
        reply: Message = Weighed(**super().handle(request, turn).values(), mass=None)
        return reply

    def constants(self, num_nodes: int, turn: Turn) -> State:
        known = super().constants(num_nodes, turn)
        return {**known, "mass": float(known["num_nodes"]) * known["holds"]}


class Asking(Cohort):
    """Asks for the other reply."""

    def __init__(self, cohort: Cohort) -> None:
        self._cohort, self.num_clients = cohort, cohort.num_clients

    def ask(
        self, request: Message, reply: type[Any], clients: Clients | None = None
    ) -> Replies[Any]:
        return self._cohort.ask(request, Weighed, clients)


def make_server(
    info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
) -> fedgl.FedGLServer:
    return fedgl.FedGLServer(info, settings, training, Asking(cohort))


def planned(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    ordinary = messages.plan_releases(settings, training, info)
    nodes = info.num_nodes
    mass = PlannedRelease(Weighed, "mass", 1, nodes, nodes, bound=nodes, edge=NOTHING)
    return [*(replace(release, message=Weighed) for release in ordinary), mass]


METHOD = replace(
    fedgl.METHOD,
    name=NAME,
    settings=Settings,
    messages=(Globals, Weighed),
    replies={Globals: Weighed},
    planned=planned,
    make_host=Client,
    make_server=make_server,
)
