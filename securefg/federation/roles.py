"""The roles: hosts that run clients, the server, and the cohort through which the server asks them.

A server's constructor gets public information and the cohort, nothing else; whatever it learns, it
learns from replies. A host's `measure` belongs to the experiment: the runner calls it to score
models on the client's own nodes, and no server ever sees what it returns.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.shard import Shard
from securefg.federation.channel import Turn
from securefg.federation.engine import Dropped
from securefg.federation.evaluation import Evaluator, LocalScore
from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.privacy.noise import NoiseSource, SystemNoise
from securefg.privacy.policy import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.settings.methods.base import MethodSettings

State = dict[str, Tensor]
M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Site:
    """What a host is given: its clients' shards, the settings, its own seed and device, and noise
    for training that is private by itself."""

    shards: tuple[Shard, ...]
    method: Any
    training: Any
    seed: int
    device: torch.device
    noise: NoiseSource = field(default_factory=SystemNoise)


@dataclass(frozen=True)
class PublicInfo:
    """What a server is given; the edges, the training labels (-1 for all other nodes) and the
    numbers of the clients that hold any (trainers) only where the method entitles it to them.

    num_public is how many nodes all clients hold and know to be shared."""

    num_nodes: int
    num_features: int
    num_classes: int
    num_clients: int
    seed: int
    device: torch.device
    edge_index: Tensor | None = None
    known_labels: Tensor | None = None
    trainers: Tensor | None = None
    num_public: int = 0


class Host(ABC):
    """The clients' side: the only place with private data."""

    @abstractmethod
    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer for `turn.clients`; the first axis of every array in the reply is the client."""

    def measure(self, release: Message) -> list[LocalScore]:
        """For the experiment alone: how the released model does on each client's own nodes."""
        return []

    def measure_at_end(self, release: Message) -> list[LocalScore]:
        """As `measure`, once when the run is over: here a score may take its time."""
        return self.measure(release)

    def state(self) -> State:
        """What must survive a crash. Random numbers need not: streams are named, not stateful."""
        return {}

    def restore(self, state: State) -> None:
        """Take up a state that `state` gave."""
        if state:
            raise ProtocolError(f"{type(self).__name__} keeps no state, found {sorted(state)}")


class Server(ABC):
    """The server's side of a method."""

    @abstractmethod
    def round(self, number: int) -> Message:
        """One round; returns what it releases to the world: the model, as a public message."""

    @abstractmethod
    def state(self) -> State:
        """What must survive a crash."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Take up a state that `state` gave."""

    def facts(self) -> dict[str, float]:
        """Figures for the summary that only the method knows."""
        return {}


@dataclass(frozen=True)
class Replies(Generic[M]):
    """The replies of one ask, rows in the order of the clients' numbers.

    `sums` holds what secure aggregation opened: of these fields nothing but the sum is known.
    """

    message: M | None
    clients: Clients
    dropped: tuple[Dropped, ...]
    sums: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.clients)

    def each(self, field: str) -> Tensor:
        """Every client's value; refused where the declaration says that the sum is enough."""
        scope = self._message.declarations[field].scope
        if scope == "sum":
            raise ProtocolError(f"{self._message.kind}.{field} is declared as a sum: use .sum()")
        if scope == "recipients":
            raise ProtocolError(f"{self._message.kind}.{field} is for recipients: use .forward()")
        return self._array(field)

    def forward(self, field: str) -> Tensor:
        """For every client, its own sum, under pads that only it can take off: to be passed on in
        a personal field that `opens` this one."""
        if self._message.declarations[field].scope != "recipients":
            raise ProtocolError(f"{self._message.kind}.{field} is not for recipients")
        return self.sums[field]

    def sum(self, field: str) -> Tensor:
        """The sum over the clients, each value weighted as the declaration says."""
        if self._message.declarations[field].scope == "recipients":
            raise ProtocolError(f"{self._message.kind}.{field} is opened by its recipients alone")
        if field in self.sums:
            return self.sums[field]
        values = self._array(field)
        weights = self._weights(field)
        if weights is None:
            return values.sum(0)
        weighted: Tensor = torch.tensordot(weights.to(values.dtype), values, dims=([0], [0]))
        return weighted

    def mean(self, field: str) -> Tensor:
        """The sum over the sum of the weights; clients that sent no weight count alike."""
        name = self._message.declarations[field].weight
        if name is not None and name in self.sums:
            return self.sum(field) / self.sums[name]
        weights = self._weights(field)
        total = self.count if weights is None else float(weights.double().sum())
        return self.sum(field) / total

    def _weights(self, field: str) -> Tensor | None:
        name = self._message.declarations[field].weight
        return cast("Tensor | None", getattr(self._message, name)) if name else None

    @property
    def _message(self) -> M:
        if self.message is None:
            raise ProtocolError("no client replied")
        return self.message

    def _array(self, field: str) -> Tensor:
        value = getattr(self._message, field)
        if not isinstance(value, Tensor):
            raise ProtocolError(f"{self._message.kind}.{field} was not sent")
        return value


class Cohort(ABC):
    """The clients, as the server sees them."""

    num_clients: int
    min_holders: int = 1
    """From how many holders on a node's sum may be released: above 1 where sums are masked and
    carry no noise, since a node held by one client is revealed by its sum."""

    @abstractmethod
    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        """Send the request to `clients` (default all) and gather their replies.

        Personal fields of the request have a row per client asked.
        """


@dataclass(frozen=True)
class Method:
    """All that the runner knows of a method; a method's file exposes one as `METHOD`.

    batched       one host runs many clients as one tensor (else every client has its own host)
    server_knows  what public information beside sizes the server is entitled to
    compare       figures over the clients' own scores, for the metrics of every round
    exposed_uploads  how many survivors' uploads follow by algebra from one masked sum of them,
                     where its parts are sums of fewer than all
    """

    name: str
    summary: str
    settings: type[MethodSettings]
    messages: tuple[type[Message], ...]
    planned: Callable[[Any, Any, PublicInfo], list[PlannedRelease]]
    make_host: Callable[[Site], Host]
    make_server: Callable[[PublicInfo, Any, Any, Cohort], Server]
    make_evaluator: Callable[[Graph, Any, torch.device], Evaluator] | None = None
    compare: Callable[[list[LocalScore]], dict[str, float]] | None = None
    batched: bool = False
    server_knows: frozenset[str] = frozenset()
    exposed_uploads: Callable[[Any, PublicInfo, list[int]], int] | None = None

    def releases(self, settings: Any, training: Any, info: PublicInfo) -> list[PlannedRelease]:
        """What the method plans to send; `training.dp_sgd` is refused where nothing trains so."""
        planned = self.planned(settings, training, info)
        if training.dp_sgd is not None and not any(release.trained for release in planned):
            raise ConfigError(
                f"training.dp_sgd: {self.name} does not train by it; allowed: null, or a method "
                "that does (fedmlp)"
            )
        return planned

    def message(self, kind: str) -> type[Message]:
        by_kind: Mapping[str, type[Message]] = {m.kind: m for m in self.messages}
        if kind not in by_kind:
            raise ProtocolError(f"{self.name} has no message {kind!r}; it has {sorted(by_kind)}")
        return by_kind[kind]


def sample_clients(num_clients: int, share: float, stream: torch.Generator) -> Clients:
    """A uniform sample of the clients asked at once."""
    count = asked_at_once(num_clients, share)
    if count == num_clients:
        return Clients(((0, num_clients),))
    return Clients.of(torch.randperm(num_clients, generator=stream)[:count].numpy())


def asked_at_once(num_clients: int, share: float) -> int:
    """ceil(share * num_clients), at least one."""
    return max(1, math.ceil(share * num_clients - 1e-9))
