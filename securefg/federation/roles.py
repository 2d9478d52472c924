"""The roles: hosts that run clients, the server, and the cohort through which the server asks them.

A server's constructor gets public information and the cohort, nothing else. It learns only
from replies. A host's `measure` belongs to the experiment: the runner calls it to score
models on the client's own nodes, and no server ever sees what it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor

from securefg.data.shard import Shard
from securefg.federation.engine import Dropped
from securefg.federation.evaluation import LocalScore
from securefg.foundation.errors import ProtocolError, RunFailed
from securefg.privacy.noise import NoiseSource, SystemNoise
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import MethodSettings

State = dict[str, Tensor]
M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=MethodSettings)


@dataclass(frozen=True)
class Site(Generic[S]):
    """A host's inputs: its clients' shards, the settings, its own seed and device, and noise for
    training that is private by itself."""

    shards: Sequence[Shard]
    method: S
    training: TrainingSettings
    seed: int
    device: torch.device
    noise: NoiseSource = field(default_factory=SystemNoise)


@dataclass(frozen=True)
class PublicInfo:
    """A server's inputs. The edges, the training labels (-1 for all other nodes) and the numbers of
    the clients that hold any (trainers) are given only if the method entitles the server to them.

    num_public is how many nodes all clients hold and know to be shared. num_trainers is how many
    clients hold training labels. node_holders and edge_holders are the largest number of clients
    that hold one node, or one edge, if known.
    """

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
    num_trainers: int | None = None
    node_holders: int | None = None
    edge_holders: int | None = None


class Host(ABC):
    """A clients' side of a method: the only place with private data."""

    @abstractmethod
    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer for `turn.clients`. The first axis of every array in the reply is the client."""

    def constants(self, num_nodes: int, turn: Turn) -> State:
        """Return, for `turn.clients`, the fields of replies that never change, by their names.

        num_nodes  size of the global index of nodes
        """
        return {}

    def measure(self, release: Message) -> list[LocalScore]:
        """Return how the released model does on each client's own nodes, for the experiment
        alone."""
        return []

    def measure_at_end(self, release: Message) -> list[LocalScore]:
        """Return the scores of `measure` once when the run is over. A score may take its time
        here."""
        return self.measure(release)

    def state(self) -> State:
        """Return what must survive a crash. Random numbers need not: streams are named, not
        stateful."""
        return {}

    def restore(self, state: State) -> None:
        """Take up a state that `state` gave."""
        if state:
            raise ProtocolError(f"{type(self).__name__} keeps no state, found {sorted(state)}")


class Server(ABC):
    """A server's side of a method."""

    @abstractmethod
    def round(self, number: int) -> Message:
        """Run one round. Return what it releases to the world: the model, as a public message."""

    @abstractmethod
    def state(self) -> State:
        """Return what must survive a crash."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Take up a state that `state` gave."""

    def facts(self) -> dict[str, float]:
        """Return figures for the summary that only the method knows."""
        return {}


@dataclass(frozen=True)
class Replies(Generic[M]):
    """A set of replies of one ask, rows in the order of the clients' numbers.

    sums      what secure aggregation opened: of these fields nothing but the sum is known
    constants  what a census counted over all clients, once in the run; replies do not hold it
    starts    by field: the request's value to which clients sent their weighted change
    enclosed  key material that came beside masked replies, a row per client
    """

    message: M | None
    clients: Clients
    dropped: tuple[Dropped, ...]
    sums: Mapping[str, Tensor] = field(default_factory=dict)
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    starts: Mapping[str, Tensor] = field(default_factory=dict)
    enclosed: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return how many clients replied."""
        return len(self.clients)

    def each(self, field: str) -> Tensor:
        """Return every client's value. Raise an error if the declaration says that the sum is
        enough."""
        scope = self._message.declarations[field].scope
        if scope == "sum":
            raise ProtocolError(f"{self._message.kind}.{field} is declared as a sum: use .sum()")
        if scope == "recipients":
            raise ProtocolError(f"{self._message.kind}.{field} is for recipients: use .forward()")
        return self._field_array(field)

    def forward(self, field: str) -> Tensor:
        """Return for every client its own sum, under pads that only it can take off. It is passed
        on in a personal field that `opens` this one."""
        if self._message.declarations[field].scope != "recipients":
            raise ProtocolError(f"{self._message.kind}.{field} is not for recipients")
        return self.sums[field]

    def sum(self, field: str) -> Tensor:
        """Return the sum over the clients, each value weighted as the declaration says. If sums are
        exact, constants are summed over all clients, whoever replied."""
        if self._message.declarations[field].scope == "recipients":
            raise ProtocolError(f"{self._message.kind}.{field} is opened by its recipients alone")
        if field in self.constants:
            return self.constants[field]
        if field in self.sums:
            return self.sums[field]
        values = self._field_array(field)
        weights = self._client_weights(field)
        if weights is None:
            return values.sum(0)
        weighted: Tensor = torch.tensordot(weights.to(values.dtype), values, dims=([0], [0]))
        return weighted

    def mean(self, field: str) -> Tensor:
        """Return the sum over the sum of the weights. Clients that sent no weight count alike."""
        name = self._message.declarations[field].weight
        if name is not None and name in self.constants:
            mean = self.sum(field) / self.constants[name]
            # A client that is away counts as unchanged, so that no sum shows its weight.
            return self.starts[field].to(mean) + mean if field in self.starts else mean
        if name is not None and name in self.sums:
            return self.sum(field) / self.sums[name]
        weights = self._client_weights(field)
        total = self.count if weights is None else float(weights.double().sum())
        return self.sum(field) / total

    def _client_weights(self, field: str) -> Tensor | None:
        name = self._message.declarations[field].weight
        return cast("Tensor | None", getattr(self._message, name)) if name else None

    @property
    def _message(self) -> M:
        if self.message is None:
            raise ProtocolError("no client replied")
        return self.message

    def _field_array(self, field: str) -> Tensor:
        value = getattr(self._message, field)
        if not isinstance(value, Tensor):
            raise ProtocolError(f"{self._message.kind}.{field} was not sent")
        return value


def require_replies(replies: Replies[M], round: int) -> Replies[M]:
    """Return the replies. Raise RunFailed if every client dropped out."""
    if replies.count == 0:
        reasons = sorted({drop.reason for drop in replies.dropped})
        raise RunFailed(f"round {round}: every client dropped out ({', '.join(reasons)})")
    return replies


class Cohort(ABC):
    """A set of clients, as the server sees them."""

    num_clients: int

    @abstractmethod
    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        """Send the request to `clients` (default all) and gather their replies.

        Personal fields of the request have a row per client asked.
        """

    def noise_stddev(self, replies: Replies[M], field: str) -> float:
        """Return the standard deviation of the noise on every number of `replies.sum(field)`, which
        is public."""
        return 0.0
