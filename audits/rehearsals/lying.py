"""A cohort that lies: what a method's server asks is replaced by what a lie says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from torch import Tensor

from attacks.active.base import Request, Told
from attacks.base import Place
from securefg.federation.roles import Cohort, Replies
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Meaning
from securefg.protocol.messages import Message

M = TypeVar("M", bound=Message)


class LyingCohort(Cohort):
    """Stands between a method's server and the federation; the clients behind it are real.

    requests, lies  how many requests were sent, and how many of them the protocol would not send
    largest         the largest norm of a field that was sent, beside the protocol's own
    """

    def __init__(
        self,
        cohort: Cohort,
        meanings: Mapping[Place, Meaning],
        lie: Callable[[Request], Sequence[Told]],
    ) -> None:
        self._cohort, self._meanings, self._lie = cohort, meanings, lie
        self.num_clients, self.round = cohort.num_clients, 0
        self.requests = self.lies = 0
        self.largest = 1.0

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        told = list(self._lie(self._described(request, reply))) or [Told()]
        self.requests += len(told)
        self.lies += len(told) - 1 + bool(told[-1].changes or told[-1].clients)
        for one in told[:-1]:
            self._cohort.ask(self._changed(request, one), reply, one.clients or clients)
        return self._cohort.ask(
            self._changed(request, told[-1]), reply, told[-1].clients or clients
        )

    def noise_stddev(self, replies: Replies[M], field: str) -> float:
        return self._cohort.noise_stddev(replies, field)

    def _described(self, request: Message, reply: type[Message]) -> Request:
        return Request(self.round, request.values(), self._of(request.kind), self._wanted(reply))

    def _wanted(self, reply: type[Message]) -> tuple[Meaning, ...]:
        return tuple(self._of(reply.kind).values())

    def _of(self, kind: str) -> dict[str, Meaning]:
        return {name: meaning for (of, name), meaning in self._meanings.items() if of == kind}

    def _changed(self, request: Message, told: Told) -> Message:
        for name, value in told.changes.items():
            honest = request.values()[name]
            if not isinstance(honest, Tensor) or not isinstance(value, Tensor):
                continue
            if float(honest.double().norm()) > 0:
                ratio = float(value.double().norm() / honest.double().norm())
                self.largest = max(self.largest, ratio)
        return type(request)(**{**request.values(), **told.changes})
