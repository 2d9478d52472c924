"""Uploads of canaries: real messages sealed by real channels, read back as an adversary sees them.

A client's row of one host's message is a trial. If noise protects only a sum, a trial is a cohort
of as many clients as are sure to be honest survivors, and their sum is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.federation.channel import Channel, Sealed
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.ledger import Ledger, Release
from securefg.privacy.noise import NoiseSource
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message, Value
from securefg.secagg.derive import MaskContext
from securefg.secagg.ring import RingArray

Floats = NDArray[np.float64]
Emission = dict[str, Floats]
WIDTH, COHORT_WIDTH = 4, 2
"""So much of a long row is audited: noise is drawn number by number, and clipped per unit."""

CHUNK_NUMBERS = 1 << 22


class Sealing(Protocol):
    """A channel, or a mutant of one."""

    def seal(self, message: Message, turn: Turn) -> Sealed:
        """Apply the rules to a message and book it."""


MakeChannel = Callable[[Policy], Sealing]
"""A host's channel under the policy; every call stands for another host."""


class NoMasks:
    """A mask that adds nothing. Masks vanish in the sum that is read here, and another check tests
    whether single masks hide."""

    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        """Leave the rows as they are."""


class Unbooked(Ledger):
    """A ledger that records nothing. Canaries are nobody's data, and their releases belong on no
    run's books."""

    def record(self, releases: list[Release]) -> None:
        """Forget them."""


def open_channel(policy: Policy, noise: NoiseSource) -> Channel:
    """Return a channel with this noise and a ledger of its own."""
    return Channel(policy, noise, Unbooked(0), NoMasks())


def audited_shape(policy: Policy, release: PlannedRelease, rows: int) -> tuple[int, int]:
    """Return rows and width of the array that stands for the planned one. An array without rows has
    one."""
    summed = policy.rule(release.message, release.field).needs_masks
    width = min(release.dim // release.num_rows, COHORT_WIDTH if summed else WIDTH)
    return min(release.num_rows, rows), width


@dataclass
class Host:
    """A host that seals canaries of one message. Its clients are numbered on and on, so that no two
    trials are the same client's.

    companion  every trial has one more client, whose value, zero, and upload the adversary knows
    rows       how many rows the arrays have, or None for the planned shape
    width      how many numbers of a row are audited, or None for a few
    alone      a trial is one client, also where noise protects only a sum: what is read is its
               upload under the masks
    """

    policy: Policy
    releases: Sequence[PlannedRelease]
    channel: Sealing
    companion: bool = False
    rows: int | None = 1
    alone: bool = False
    width: int | None = None
    next_client: int = field(default=0)

    @property
    def message(self) -> type[Message]:
        """Return the type of the audited message."""
        return self.releases[0].message

    @property
    def _noises(self) -> list[int]:
        rules = [self.policy.rule(r.message, r.field) for r in self.releases]
        return [rule.num_shares for rule in rules if rule.needs_masks]

    @property
    def discrete(self) -> bool:
        """Return whether the noise is integers, shared out or all of one client."""
        return bool(self._noises)

    @property
    def cohort(self) -> int:
        """Return how many clients a trial takes."""
        if self.alone:
            return 1
        return max(self._noises, default=1)

    @property
    def group(self) -> int:
        """Return the number of clients per trial: the cohort and its companion."""
        return self.cohort + self.companion

    def shape(self, release: PlannedRelease) -> tuple[int, int]:
        """Return rows and numbers per row of a release."""
        if self.rows is None:
            return release.num_rows, release.dim // release.num_rows
        rows, width = audited_shape(self.policy, release, self.rows)
        if self.width is not None:
            width = min(release.dim // release.num_rows, self.width)
        return rows, width

    @property
    def numbers_per_trial(self) -> int:
        """Return how many draws a trial costs. Normals come four at a time."""
        least, numbers = (1 if self.discrete else 4), 0
        for rows, width in map(self.shape, self.releases):
            numbers += -(-rows * width // least) * least
        return self.group * numbers

    def enrol_clients(self, trials: int, messages: int = 1) -> list[tuple[int, int]]:
        """Return new clients for so many trials, in chunks of (first client, trials), a message
        each."""
        step = max(1, min(-(-trials // messages), CHUNK_NUMBERS // self.numbers_per_trial))
        chunks = []
        for start in range(0, trials, step):
            count = min(step, trials - start)
            chunks.append((self.next_client, count))
            self.next_client += count * self.group
        return chunks

    def emit_views(
        self, units: Mapping[str, Floats], enrolled: list[tuple[int, int]], round: int
    ) -> tuple[Emission, Emission]:
        """Return what is seen of the trials, and what a companion saw of its own upload.

        units  [trials, rows, width] by field, the canaries (absent fields send zeros)
        """
        parts, start = [], 0
        for first, count in enrolled:
            chunk = {name: values[start : start + count] for name, values in units.items()}
            parts.append(self._emit_chunk(chunk, first, count, round))
            start += count
        return _join_parts([seen for seen, _ in parts]), _join_parts([own for _, own in parts])

    def _emit_chunk(
        self, units: Mapping[str, Floats], first: int, trials: int, round: int
    ) -> tuple[Emission, Emission]:
        clients = Clients(((first, first + trials * self.group),))
        message = self.message_of(units, trials, round)
        sealed = self.channel.seal(message, Turn(round, 1, clients))
        arrived = codec.decode(sealed.body, self.message)
        seen, own_values = {}, {}
        for release in self.releases:
            values = getattr(arrived, release.field)
            shape = (trials, self.group, *self.shape(release))
            seen[release.field], own_values[release.field] = self._read_release(
                release, values, shape
            )
        return seen, own_values

    def _read_release(
        self, release: PlannedRelease, values: Tensor, shape: tuple[int, ...]
    ) -> tuple[Floats, Floats]:
        masked = self.policy.mask(release.message, release.field)
        if masked is None:
            found = values.double().numpy().reshape(shape)
            return found[:, 0], found[:, -1]
        ring = masked.grid.ring
        rows = values.numpy().view(ring.dtype).reshape(shape)
        summed = rows[:, :1]
        if masked.rule.needs_masks and not self.alone:
            summed = rows[:, : masked.rule.num_shares]
        total = summed.sum(1, dtype=ring.dtype)
        own = np.ascontiguousarray(rows[:, -1])
        return masked.grid.dequantise_total(total), masked.grid.dequantise_total(own)

    def message_of(self, units: Mapping[str, Floats], trials: int, round: int) -> Message:
        """Return the message that the host seals: canaries of so many trials, zeros elsewhere."""
        weights = {d.weight for d in self.message.declarations.values()}
        filled: dict[str, Value] = {}
        for release in self.releases:
            rows, width = self.shape(release)
            array = np.zeros((trials, self.group, rows, width), np.float32)
            if release.field in weights:
                array += 1
            if release.field in units:
                array[:, 0] = units[release.field]
            inner = (rows, width) if _has_rows(release) else (width,)
            filled[release.field] = torch.from_numpy(array.reshape(trials * self.group, *inner))
        others = {
            name: self._blank_value(name, trials * self.group, round)
            for name in self.message.declarations
            if name not in filled
        }
        return self.message(**filled, **others)

    def _blank_value(self, name: str, count: int, round: int) -> Value:
        if name in self.message.optional:
            return None
        kind = next(iter(self.message.types[name]))
        if kind is Tensor:
            return torch.zeros(count, 1)
        return round if kind is int else kind()


def claimed_fields(policy: Policy, releases: Sequence[PlannedRelease]) -> list[PlannedRelease]:
    """Return the fields for which the policy promises noise that protects."""
    if not policy.protects:
        return []
    return [r for r in releases if isinstance(policy.rule(r.message, r.field), NoisyUpload)]


def unit_norms(values: Floats, rule: NoisyUpload) -> Floats:
    """Return the norm of every clipped unit of (messages, rows, width) values, axes kept."""
    axes = (1, 2) if rule.per == "message" else (2,)
    if rule.norm_order == 1:
        lengths: Floats = np.abs(values).sum(axes, keepdims=True)
        return lengths
    norms: Floats = np.sqrt(np.square(values).sum(axes, keepdims=True))
    return norms


def _has_rows(release: PlannedRelease) -> bool:
    return release.num_rows > 1 or release.declaration.rows is not None


def _join_parts(parts: list[Emission]) -> Emission:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
