"""The `privacy.secure_aggregation` part of a config."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import Field, PositiveFloat, model_validator

from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import Settings

_ROUNDING: Final = 1e-14


def colluders_in(cohort: int, population: int, corrupt: float) -> int:
    """Return the largest number of colluders that a cohort can have: min(cohort, floor(corrupt N)).

    The server picks the cohort out of all N clients, so it can pick every colluder.
    """
    return min(cohort, math.floor((corrupt + _ROUNDING) * population))


@dataclass(frozen=True)
class Threat:
    """At most `corrupt` of all clients collude with the server, at most `dropout` of those asked
    fall silent; None: a third of a small cohort, and little more than a tenth of a large one.

    population  how many clients there are: a server that picks whom to ask can pick all colluders
                among them; by default those that are asked
    """

    corrupt: float = 0.05
    dropout: float | None = None
    population: int | None = None

    def __post_init__(self) -> None:
        silent = self.dropout or 0.0
        if not (0 <= self.corrupt < 1 and 0 <= silent < 1 and self.corrupt + 2 * silent <= 0.9):
            raise ConfigError(
                f"privacy.secure_aggregation: found corrupt {self.corrupt} and dropout {silent}; "
                "expected fractions with corrupt + 2 dropout <= 0.9"
            )

    def num_corrupt(self, num_clients: int) -> int:
        """Return the number of colluders in a cohort of `num_clients`."""
        return colluders_in(num_clients, self.population or num_clients, self.corrupt)

    def num_dropped(self, num_clients: int) -> int:
        """Return how many of a cohort may fall silent."""
        if self.dropout is None:
            agreeing = (num_clients + self.num_corrupt(num_clients)) // 2 + 1
            return max(0, min(num_clients // 3, 2 + num_clients // 10, num_clients - agreeing))
        return math.floor((self.dropout + _ROUNDING) * num_clients)

    def least_cohort(self, planned: int) -> int:
        """Return the fewest clients that are ever summed if `planned` are asked: all but those that
        may fall silent, and at least two who do not collude."""
        everybody = self.population or planned
        return max(planned - self.num_dropped(planned), self.num_corrupt(everybody) + 2)


class CommitteeSettings(Settings):
    """The members that hold the seeds of all masks, in groups (docs/explanations/committee.md).

    Every group holds one additive share. The server reads single uploads only together with one
    member of each group, or with so many members that two lists can be signed.
    """

    members: tuple[int, ...] | None = Field(
        None,
        description="numbers of the clients that are members, group after group; by default drawn "
        "from the enrolled identities",
    )
    colluding: int = Field(
        1, ge=1, le=62, description="members that may collude with the server and learn nothing"
    )
    absent: int = Field(
        1, ge=0, le=8, description="members that may fall silent while a sum is opened"
    )

    @property
    def most_colluding(self) -> int:
        """Return how many members may collude: one fewer than there are groups."""
        named = len(self.members or ()) // (self.absent + 1) - 1
        return max(self.colluding, named)


class SecureAggregationSettings(Settings):
    """Masking of what the server needs only the sum of; `{}` takes all defaults."""

    renamed: ClassVar[Mapping[str, str]] = {"fields": "masked_fields"}

    form: Literal["session", "committee"] = Field(
        "session",
        description="session: all clients agree on masks in several exchanges; committee: every "
        "client sends one message, and some clients open the sum",
    )
    committee: CommitteeSettings = CommitteeSettings()
    masked_fields: tuple[str, ...] | None = Field(
        None, description="Message.field names to mask; by default all that are sums"
    )
    ring_bits: Literal[32, 64] = Field(32, description="bits of a masked number")
    value_bound: PositiveFloat = Field(
        16.0, description="bound to which coordinates are clipped before quantisation"
    )
    scale: PositiveFloat | None = Field(
        None, description="quantisation steps per unit; by default the finest that cannot overflow"
    )
    corrupt: float = Field(
        0.05, ge=0, lt=1, description="fraction of all clients that may collude with the server"
    )
    dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="fraction of the clients asked that may drop out; "
        "by default a third of few clients, a tenth of many",
    )
    malicious: bool = Field(
        True,
        description="the server may lie: survivors sign what they were told; "
        "false saves a stage and trusts the server to follow the protocol",
    )
    keys: Literal["hybrid", "classical"] = Field(
        "hybrid",
        description="hybrid: X25519 and ML-KEM-768 together, so that what is recorded today stays "
        "closed if one of them breaks; classical: X25519 alone",
    )
    min_clients: int = Field(3, ge=3, description="smaller cohorts are refused by every client")
    min_holders: int = Field(
        2, ge=1, description="least number of holders of a node for its sum to be released"
    )
    on_abort: Literal["skip", "stop"] = Field(
        "skip", description="after an aborted round: continue with the next one, or end the run"
    )

    @model_validator(mode="after")
    def _committee_is_used(self) -> SecureAggregationSettings:
        if self.form != "committee" and self.committee != CommitteeSettings():
            raise ValueError(
                f"committee: found settings beside form: {self.form}; expected form: committee"
            )
        return self

    def threat_among(self, population: int) -> Threat:
        """Return the threat if the server picks whom to ask out of so many.

        Members that collude know their parts of a sum, and their noise in it.
        """
        members = self.committee.most_colluding if self.form == "committee" else 0
        corrupt = max(self.corrupt, min(members / population, 1 - _ROUNDING))
        return Threat(corrupt, self.dropout, population)
