"""The contract of a defence: what it does to a private value, what it costs, how it is audited.

A defence is one file with `DEFENCE = TheClass`, in `securefg/privacy/defences`, in an installed
package (entry-point group `securefg.defences`) or at any module path. Nothing outside that file
names it. `NoisyUpload` is the contract of noise on uploads. `private_training` has the contract of
noise inside a client's training.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, Self

import torch
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module
from securefg.privacy.influence import Influence
from securefg.privacy.law import Law
from securefg.privacy.ledger import NO_BOUND, Accounting, Mechanism, Reach
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring, RingArray
from securefg.settings.privacy import DEFENCES, Adjacency, Per, shipped_defences
from securefg.settings.secagg import Threat

Stream = tuple[str | int, ...]

HEADROOM_BITS: Final = 2
"""Numbers all over the ring pass for a sum within the bound with a probability of 1/4 each."""


@dataclass(frozen=True)
class Asked:
    """A request of the settings for the noise of one field.

    noise_multiplier  None where no setting gives one
    moved_l2          how far the protected unit moves the message, where the method proves it
    threat, senders   who may collude or drop out among the clients that send, or None without masks
    """

    field: str
    mechanism: str
    clip_l2: float
    noise_multiplier: float | None
    per: Per
    adjacency: Adjacency
    moved_l2: float | None = None
    threat: Threat | None = None
    senders: int = 1

    def require_noise(self) -> float:
        """Return the noise multiplier, or raise if no setting gives one."""
        if self.noise_multiplier is None:
            raise ConfigError(
                f"privacy: {self.mechanism} on {self.field} needs either noise_multiplier or "
                "target_epsilon; found neither; set one of them"
            )
        return self.noise_multiplier

    def unknown_noises(self) -> int:
        """Return the least number of noises in a masked sum that its reader did not draw."""
        if self.threat is None:
            raise ConfigError(
                f"privacy.mechanism: {self.mechanism} wants secure_aggregation: {{}}; found no "
                "masks; set privacy.secure_aggregation: {}"
            )
        return _unknown_noises(self.threat, self.field, self.senders)


def _unknown_noises(threat: Threat, name: str, senders: int) -> int:
    """Return the least number of noises in a sum that its reader did not draw.

    Every client reads the sum, or the model that follows from it, and can subtract its own noise.
    At least one noise is therefore known, even if nobody colludes.
    """
    corrupt, dropped = threat.num_corrupt(senders), threat.num_dropped(senders)
    unknown = senders - dropped - max(1, corrupt)
    if unknown < 1:
        raise ConfigError(
            f"privacy.secure_aggregation: found up to {corrupt} colluders and {dropped} drop-outs "
            f"among the {senders} clients that send {name}; expected at least one more client, "
            "whose noise the reader of the sum does not know; lower corrupt or dropout, or ask "
            "more clients (training.participation)"
        )
    return unknown


@dataclass(frozen=True)
class SumPlan:
    """A masked sum that needs a grid.

    bound        what no number of a client's value passes without a defence
    weighted_by  the private field by which clients are weighted; `heaviest` is its bound
    scale        the scale that the settings fix, if they do
    """

    field: str
    dim: int
    num_rows: int
    bound: float
    ring: Ring
    num_clients: int
    weighted_by: str | None = None
    heaviest: float | None = None
    scale: float | None = None

    def unit_dim(self, per: Per) -> int:
        """Return how many numbers one clipped unit has."""
        return self.dim if per == "message" else self.dim // self.num_rows


class Defence(ABC):
    """A rule for one private field, settled before the run and frozen.

    name         as the ledger books it
    label        a few words for legends; `about` is one line for the page of a curve
    colour       1 to 7, the colour on that page; None for any that is free
    noise_in     the place of the noise: nowhere, the upload, or the training that made the value
    needs_masks  the noise protects nothing but a masked sum
    accounting   how accountants read the booked noise multiplier

    rounds_at_random  values go to the grid of a masked sum by random rounding, not to the nearest
    """

    name: ClassVar[str]
    label: ClassVar[str]
    about: ClassVar[str]
    colour: ClassVar[int | None] = None
    noise_in: ClassVar[Literal["nowhere", "upload", "training"]]
    needs_masks: ClassVar[bool] = False
    rounds_at_random: ClassVar[bool] = False
    accounting: ClassVar[Accounting] = "gaussian"

    @classmethod
    @abstractmethod
    def settle(cls, asked: Asked) -> Self:
        """Return the defence for one field, or raise `ConfigError` in terms of settings."""

    @abstractmethod
    def apply(self, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream) -> Tensor:
        """Return the values that leave without masks. The first axis is the client."""

    @abstractmethod
    def stddev(self, shape: torch.Size) -> float:
        """Return the standard deviation of the noise on each number of one client's value."""

    @abstractmethod
    def fact(self, field: str, dim: int, num_rows: int, protects: bool) -> Mechanism:
        """Return what the ledger books for one client's value of `dim` numbers in `num_rows`."""

    @abstractmethod
    def words(self) -> str:
        """Return what happens to the value, for people."""

    @property
    def is_bare(self) -> bool:
        """Return whether the value carries no noise at all."""
        return self.noise_in == "nowhere"

    @property
    def num_shares(self) -> int:
        """Return how many clients' noises together are the claimed one."""
        return 1

    def reach(self, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
        """Return the noise that a node or an edge meets in one release, over all its holders.

        dim, num_rows  of one client's message
        """
        if influence.rows == 0 or holders == 0:
            return Reach(None, 0)
        return self.noise_met(influence, holders, dim, num_rows)

    def noise_met(self, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
        """Return the `reach` for the distance that one holder's message moves. There is no bound
        unless a defence proves one."""
        return NO_BOUND

    def largest(self, bound: float) -> float:
        """Return what no number passes after `apply`, if none passed `bound` before."""
        return bound

    def on_grid(self, plan: SumPlan) -> tuple[Self, Grid]:
        """Return the defence and the grid of a masked sum, which no sum overflows."""
        bound = self.largest(plan.bound)
        most = bound if plan.heaviest is None else plan.heaviest * max(bound, 1.0)
        scale = plan.scale or finest_scale(plan.ring, plan.num_clients * most)
        grid = Grid(plan.num_clients, bound, scale, plan.heaviest, dim=plan.dim, ring=plan.ring)
        return self, grid

    def to_ring(
        self,
        values: Tensor,
        weights: Tensor | None,
        noise: NoiseSource,
        clients: Clients,
        stream: Stream,
        grid: Grid,
    ) -> RingArray:
        """Return a row of ring elements per client, ready to be masked."""
        protected = self.apply(values, noise, clients, stream).double()
        if weights is not None:
            protected = protected * weights.double().reshape(-1, *[1] * (values.dim() - 1))
            if values.dtype == torch.float64:  # the product of two large numbers may overflow
                protected = protected.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        return grid.quantise_values(protected.reshape(len(values), -1).numpy())

    @classmethod
    def booked_words(cls, mechanism: Mechanism, clip_l2: float) -> str:
        """Return a sentence for a report about a release that was booked with noise."""
        return f"{mechanism.rule}, noise multiplier {mechanism.noise_multiplier:g}."


@dataclass(frozen=True)
class NoisyUpload(Defence):
    """A defence that clips every unit of an upload and adds noise to it.

    clip_l2           the bound C of a unit's norm; the norm is L2 unless `norm_order` is 1
    noise_multiplier  z, proportional to the noise and to what the ledger books
    per               the unit that is clipped: a row, or the whole message
    moved_l2          the distance that noise is sized for, where a method proves it
    sd_per_scale      the standard deviation of noise whose scale is 1: multiplier times
                      sensitivity is its scale
    """

    noise_in = "upload"
    norm_order: ClassVar[Literal[1, 2]] = 2
    sd_per_scale: ClassVar[float] = 1.0

    clip_l2: float
    noise_multiplier: float
    per: Per
    adjacency: Adjacency = "replace_one"
    moved_l2: float | None = None

    @classmethod
    def settle(cls, asked: Asked) -> Self:
        """Return the rule with the settings that were asked for."""
        return cls(
            clip_l2=asked.clip_l2,
            noise_multiplier=asked.require_noise(),
            per=asked.per,
            adjacency=asked.adjacency,
            moved_l2=asked.moved_l2,
        )

    @abstractmethod
    def law(self, shape: torch.Size) -> Law:
        """Return the law of the noise on one client's value of this shape."""

    @abstractmethod
    def multiplier(self, dim: int) -> float:
        """Return what the ledger books for a unit of `dim` numbers.

        With `accounting` "gaussian" it is the noise of a Gaussian over the sensitivity. With "zcdp"
        it is 1 / sqrt(2 rho).
        """

    def stddev(self, shape: torch.Size) -> float:
        """Return the standard deviation of the noise on every number of an array of this shape."""
        return self.law(shape).sd

    def unit_bound(self, dim: int) -> float:
        """Return the norm that no unit of `dim` numbers passes when it leaves, without noise."""
        return self.clip_l2

    def fact(self, field: str, dim: int, num_rows: int, protects: bool) -> Mechanism:
        """Return the mechanism that the ledger books for one message of `num_rows` rows and `dim`
        numbers."""
        rows = num_rows if self.per == "row" else 1
        return Mechanism(
            field=field,
            rule=self.name,
            per=self.per,
            noise_multiplier=self.multiplier(dim // rows),
            num_rows=rows,
            adjacency=self.adjacency,
            protects=protects,
            accounting=self.accounting,
        )

    def planned_fact(
        self, field: str, num_rows: int, node: tuple[Influence, int], edge: tuple[Influence, int]
    ) -> Mechanism:
        """Return the fact before a grid is chosen, to compute the noise from an epsilon.

        node, edge  what one of them moves, and how many clients hold it
        """
        rows = num_rows if self.per == "row" else 1
        return Mechanism(
            field,
            self.name,
            self.per,
            self.noise_multiplier,
            rows,
            accounting=self.accounting,
            node=self.planned_reach(*node, rows),
            edge=self.planned_reach(*edge, rows),
        )

    def planned_reach(self, influence: Influence, holders: int, num_rows: int) -> Reach:
        """Return the `reach` before a grid is chosen."""
        return self.reach(influence, holders, num_rows, num_rows)

    def rows_moved(self, influence: Influence, num_rows: int) -> int:
        """Return how many clipped units of a message a node or an edge can change."""
        if self.per == "message":
            return 1
        return num_rows if influence.rows is None else min(influence.rows, num_rows)

    def scaled(self, factor: float) -> Self:
        """Return the same defence with so many times the noise."""
        return replace(self, noise_multiplier=self.noise_multiplier * factor)

    def redraw(
        self, shape: torch.Size, noise: NoiseSource, clients: Clients, stream: Stream
    ) -> Tensor:
        """Return the noise on a value of this shape, for somebody who knows the seed."""
        return self.apply(torch.zeros(shape, dtype=torch.float64), noise, clients, stream)

    def on_grid(self, plan: SumPlan) -> tuple[Self, Grid]:
        """Return the rule and the grid of a masked sum. Raise ConfigError if clients have private
        weights."""
        if plan.weighted_by is not None:
            raise ConfigError(
                f"{plan.field}: found noise under masks weighted by the private "
                f"{plan.weighted_by}; expected clients that count alike; set method.weighting: "
                "clients"
            )
        return super().on_grid(plan)


def finest_scale(ring: Ring, largest_sum: float) -> float:
    """Return a power of two by which a sum can be scaled and stay in a quarter of the ring, so that
    one that holds more than honest uploads is seen."""
    return 2.0 ** (math.floor(math.log2(ring.largest / largest_sum) - 1e-9) - HEADROOM_BITS)


# ------------------------------------------------------------------------------------ the registry

_STATED: Final = ("name", "label", "about", "noise_in")


def find_defence(name: str, key: str = "privacy.mechanism") -> type[Defence]:
    """Return the defence of this name: a shipped one, an installed one, or a module's DEFENCE.

    key  the setting that names it, for errors
    """
    shipped = shipped_defences()
    defence_class = getattr(find_module(key, name, shipped, DEFENCES), "DEFENCE", None)
    if not (isinstance(defence_class, type) and issubclass(defence_class, Defence)):
        raise ConfigError(
            f"{key}: found no DEFENCE in module {name!r}; expected DEFENCE = a class of "
            "securefg.privacy.defence"
        )
    lacking = [
        *sorted(defence_class.__abstractmethods__),
        *(n for n in _STATED if not hasattr(defence_class, n)),
    ]
    if lacking:
        raise ConfigError(
            f"{key}: found {defence_class.__name__} without {', '.join(lacking)}; expected all of "
            f"{defence_class.__base__.__name__ if defence_class.__base__ else 'Defence'} "
            "(securefg.privacy.defence); write what is missing"
        )
    if defence_class.name in {*shipped, "masked"} - {name}:
        raise ConfigError(
            f"{key}: found {defence_class.__name__} with the name {defence_class.name!r}, which is "
            "taken; expected another one; rename it"
        )
    return defence_class


def local_defences(*, noisy: bool = False) -> list[str]:
    """Return the shipped defences that need no masks, for advice in errors.

    noisy  only those that add noise
    """
    found = {name: find_defence(name) for name in shipped_defences()}
    places = ("upload",) if noisy else ("upload", "nowhere")
    return [n for n, d in found.items() if not d.needs_masks and d.noise_in in places]
