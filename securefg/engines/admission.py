"""Admission: every check of a request that needs no private data, before a host sees the request.

A request that is refused here cost no privacy: the checks read the message, the plan and public
sizes, so a refusal tells the server what it knew. A request that is admitted says beforehand which
reply it brings and which private fields leave in it, so that they can be booked first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch

from securefg.federation.census import summable_rows_of
from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import PrivacyError, ProtocolError
from securefg.methods.base import AnyMethod
from securefg.privacy.ledger import Release
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import Bound, Rounds, check_value
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import MethodSettings


@dataclass(frozen=True)
class PlannedField:
    """A private field that leaves in this run: its size, and in how many rounds at most."""

    kind: str
    field: str
    dim: int
    num_rows: int
    most: int


@dataclass(frozen=True)
class RequestPlan:
    """A plan of what the requests of a run may hold and bring, settled from public facts.

    public  the sizes of the run; never the graph or the labels that a server may be entitled to
    bounds  by message kind and field; a field without a bound is not in it
    """

    public: PublicInfo
    planned: tuple[PlannedField, ...]
    bounds: Mapping[tuple[str, str], Bound]
    rounds: int

    @classmethod
    def of(
        cls,
        method: AnyMethod,
        settings: MethodSettings,
        training: TrainingSettings,
        public: PublicInfo,
        policy: Policy,
        planned: Iterable[PlannedRelease],
    ) -> RequestPlan:
        """Settle the plan of a run from its settings, its sizes and its policy."""
        sizes = replace(
            public, edge_index=None, known_labels=None, trainers=None, device=torch.device("cpu")
        )
        return cls(
            public=sizes,
            planned=tuple(
                PlannedField(r.message.kind, r.field, r.dim, r.num_rows, r.most_rounds)
                for r in planned
                if r.leaves(bare=policy.bare)
            ),
            bounds=method.bounds(settings, sizes),
            rounds=training.rounds,
        )


@dataclass(frozen=True)
class Expected:
    """A description of what an admitted request brings.

    reply     None where the method does not say which of its messages it is
    releases  the private fields that may leave in the reply
    """

    reply: type[Message] | None
    releases: list[Release]


class Admission:
    """A set of checks of one host's requests. Every check raises.

    before  what this host's clients released in earlier attempts
    """

    def __init__(
        self,
        method: AnyMethod,
        settings: MethodSettings,
        policy: Policy,
        plan: RequestPlan,
        before: Iterable[Release] = (),
    ) -> None:
        self._method, self._settings = method, settings
        self._policy, self._plan = policy, plan
        self._rounds_of: dict[str, set[int]] = {}
        for release in before:
            self._rounds_of.setdefault(release.mechanism.field, set()).add(release.round)

    def check_fields(self, request: Message, turn: Turn) -> None:
        """Raise unless every field lies within its bounds and the fields fit one another."""
        if not 0 <= turn.round <= self._plan.rounds:
            raise ProtocolError(
                f"round: found {turn.round}; expected 0 to {self._plan.rounds}, as planned"
            )
        self._check_message(request, Rounds(turn.round, turn.round), len(turn.clients))
        if self._policy.exact.counted:
            self._check_rows(request)

    def _check_rows(self, request: Message) -> None:
        """Raise where rows are asked for and the request does not say which have enough holders."""
        reply, exact = self._method.reply_to(request), self._policy.exact
        limits = reply is not None and exact.limits_rows(reply)
        if limits and summable_rows_of(request) is None:
            raise PrivacyError(
                f"{request.kind}: rows of nodes were asked for without a count of holders"
            )

    @property
    def num_nodes(self) -> int:
        """Return the size of the global index of nodes, as planned."""
        return self._plan.public.num_nodes

    def check_release(self, release: Message) -> None:
        """Raise unless a model that is to be scored lies within its bounds."""
        if type(release) is not self._method.release:
            raise ProtocolError(
                f"kind: found {release.kind}; expected {self._method.release.kind}, the model "
                f"that {self._method.name} releases"
            )
        self._check_message(release, Rounds(0, self._plan.rounds), None)

    def _check_message(self, message: Message, rounds: Rounds, num_clients: int | None) -> None:
        for name, value in message.values().items():
            bound = self._plan.bounds.get((message.kind, name))
            if value is None:
                continue
            is_personal = message.declarations[name].scope == "personal"
            if bound is not None:
                rows = num_clients if is_personal else None
                check_value(f"{message.kind}.{name}", value, bound, rounds, rows)
            elif isinstance(value, torch.Tensor) and not bool(torch.isfinite(value).all()):
                raise ProtocolError(f"{message.kind}.{name}: found NaN or infinity")
        self._method.check_fit(self._settings, self._plan.public, message)

    def expect_reply(self, request: Message, turn: Turn) -> Expected:
        """Return what the request brings. Raise unless the run's plan has it, this often."""
        reply = self._method.reply_to(request)
        if reply is None:  # the method does not say: the reply may hold any planned field
            return Expected(None, self._expected_releases(self._plan.planned, turn))
        fields = [planned for planned in self._plan.planned if planned.kind == reply.kind]
        if not fields and _is_all_private(reply):
            raise PrivacyError(
                f"{request.kind}: found a request for {reply.kind}; the plan of this run has none"
            )
        for planned in fields:
            self._count_reply(planned, reply, turn.round)
        return Expected(reply, self._expected_releases(fields, turn))

    def _count_reply(self, planned: PlannedField, reply: type[Message], round: int) -> None:
        name = f"{reply.__name__}.{planned.field}"
        rounds = self._rounds_of.setdefault(name, set())
        if round not in rounds and len(rounds) >= planned.most:
            raise PrivacyError(
                f"{name}: found a request in {len(rounds) + 1} rounds; expected {planned.most} at "
                "most, as planned"
            )

    def _expected_releases(self, fields: Iterable[PlannedField], turn: Turn) -> list[Release]:
        expected_releases = []
        for planned in fields:
            message = self._method.message(planned.kind)
            size = (planned.dim, planned.num_rows)
            mechanism = self._policy.mechanism(message, planned.field, *size)
            expected_releases.append(
                Release(mechanism, turn.clients, turn.round, turn.step, turn.attempt)
            )
        return expected_releases

    def note(self, releases: Iterable[Release]) -> None:
        """Count what left."""
        for release in releases:
            self._rounds_of.setdefault(release.mechanism.field, set()).add(release.round)


def _is_all_private(reply: type[Message]) -> bool:
    """Return whether a reply cannot do without what comes from data."""
    required = [d for name, d in reply.declarations.items() if name not in reply.optional]
    return any(d.is_private for d in required) or all(
        d.is_private for d in reply.declarations.values()
    )
