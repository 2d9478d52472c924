"""A method whose clients send back as many numbers as they get, and say how long they took."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State
from securefg.methods.fedgl import algorithm as fedgl
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import reals
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    name: Literal["tests.e2e.echo"] = "tests.e2e.echo"  # type: ignore[assignment]
    size: int = 1000


class Call(Message, kind="echo.Call"):
    numbers: Tensor = public(
        "what is to come back", means=Other(), bounds=lambda s, p: reals((None,))
    )


class Echo(Message, kind="echo.Echo"):
    numbers: Tensor = private("each", "what came", means=Other())
    seconds: Tensor = private("each", "how long it took", means=Other())


class EchoHost(Host):
    def __init__(self, site: Site) -> None: ...

    def handle(self, request: Message, turn: Turn) -> Message:
        began = time.perf_counter()
        assert isinstance(request, Call)
        back = request.numbers[None].clone()
        return Echo(numbers=back, seconds=torch.tensor([time.perf_counter() - began]))


class EchoServer(Server):
    def __init__(self, info: PublicInfo, settings: Any, training: Any, cohort: Cohort) -> None:
        self._cohort, self._size = cohort, settings.size
        self._steps: list[float] = []
        self._site: list[float] = []

    def round(self, number: int) -> Message:
        numbers = torch.full((self._size,), float(number))
        began = time.perf_counter()
        replies = self._cohort.ask(Call(numbers=numbers), Echo)
        self._steps.append(time.perf_counter() - began)
        assert replies.count == self._cohort.num_clients
        assert bool((replies.each("numbers") == number).all())
        self._site.append(float(replies.each("seconds").max()))
        return Call(numbers=numbers[:1])

    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None: ...

    def facts(self) -> dict[str, float]:
        return {
            "step_seconds": statistics.median(self._steps),
            "site_seconds": statistics.median(self._site),
        }


def planned(settings: Any, training: Any, info: PublicInfo) -> list[PlannedRelease]:
    return [
        PlannedRelease(Echo, "numbers", training.rounds, settings.size),
        PlannedRelease(Echo, "seconds", training.rounds),
    ]


METHOD = replace(
    fedgl.METHOD,
    name="tests.e2e.echo",
    settings=Settings,
    messages=(Call, Echo),
    replies={Call: Echo},
    check=None,
    release=Call,
    planned=planned,
    make_host=EchoHost,
    make_server=EchoServer,
    make_evaluator=None,
)
