"""Removal of noise that an adversary can draw again from what it saw, before anything is said.

Seeded noise comes from the run's seed, and so does the noise that a method adds by itself. A
configuration is agreed, hence known to every party. A field whose noise is left on is named:
silence of an attack on that field says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attacks.base import Noise, Place
from securefg.engines.hosting import noise_source
from securefg.foundation.streams import derive_seed
from securefg.privacy.defence import Defence, NoisyUpload
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message, Scalar
from securefg.protocol.transcript import Seen
from securefg.runs.assembly import Experiment

MANY = 2_000_000
"""Discrete noise of more numbers than this takes minutes to draw again, and is left on."""

Fields = dict[str, Tensor | Scalar]


@dataclass(frozen=True)
class Bared:
    """A view without the noise that was taken off, and the fields that still have some."""

    seen: tuple[Seen, ...]
    left_on: tuple[str, ...] = ()


def without_known_noise(experiment: Experiment, seen: Iterable[Seen]) -> Bared:
    """Return what was seen, with noise taken off that an adversary can draw again."""
    policy, method = experiment.policy, experiment.method
    seeded = not policy.protects and any(not rule.is_bare for rule in policy.rules.values())
    if not seeded and method.own_noise is None:
        return Bared(tuple(seen))
    taking = _Taking(experiment, seeded)
    return Bared(tuple(taking.take_off(one) for one in seen), tuple(sorted(taking.left)))


def noise_on(experiment: Experiment, left_on: Iterable[str]) -> dict[Place, Noise]:
    """Return by field the noise that the policy left on it, for those who cannot draw it again."""
    policy, config, left = experiment.policy, experiment.config, set(left_on)
    noise_by_place = {}
    planned = experiment.method.planned(config.method, config.training, experiment.public)
    for release in planned:
        rule, place = policy.rules.get(release.name), (release.message.kind, release.field)
        if isinstance(rule, NoisyUpload) and (policy.protects or ".".join(place) in left):
            shape = torch.Size((release.num_rows, release.dim // release.num_rows))
            noise_by_place[place] = Noise(rule.stddev(shape), rule.clip_l2)
        if release.trained is not None and policy.protects:
            noise_by_place[place] = Noise(*release.trained.weight_noise())
    return noise_by_place


@dataclass
class _Taking:
    """A pass through a view in order, which remembers what was asked in which step."""

    x: Experiment
    seeded: bool
    left: set[str] = field(default_factory=set)
    _asked: dict[tuple[int, int], Seen] = field(default_factory=dict)
    _steps: dict[tuple[int, str], int] = field(default_factory=dict)

    def take_off(self, seen: Seen) -> Seen:
        header = seen.header
        if header.sender == "sum":
            return self._off_sum(seen)
        if not header.up:
            self._asked[header.round, header.step] = seen
            return seen
        self._steps[header.round, header.kind] = header.step
        if seen.fields is None or header.kind not in self._kinds:
            return seen
        message, fields = self.x.method.message(header.kind), dict(seen.fields)
        for name, value in fields.items():
            if not isinstance(value, Tensor) or not message.declarations[name].is_private:
                continue
            if self.x.policy.mask(message, name) is None:
                noise = self._redraw_noise(
                    message, name, value.shape, seen.clients, header.step, seen
                )
                fields[name] = value if noise is None else (value.double() - noise).to(value.dtype)
        return replace(seen, fields=fields)

    def _off_sum(self, seen: Seen) -> Seen:
        kind = seen.header.kind.removesuffix(".sum")
        step = self._steps.get((seen.header.round, kind))
        if seen.fields is None or kind not in self._kinds or step is None:
            return seen
        message, fields = self.x.method.message(kind), dict(seen.fields)
        for name, value in fields.items():
            if isinstance(value, Tensor) and message.declarations[name].is_private:
                fields[name] = self._off_total(message, name, value, step, seen)
        return replace(seen, fields=fields)

    def _off_total(
        self, message: type[Message], name: str, value: Tensor, step: int, seen: Seen
    ) -> Tensor:
        rule, weighted = self.x.policy.rule(message, name), message.declarations[name].weight
        is_local = isinstance(rule, NoisyUpload) and not rule.needs_masks
        if weighted and self.seeded and is_local:
            self.left.add(f"{message.kind}.{name}")
            return value
        total = torch.zeros(value.shape, dtype=torch.float64)
        for client in seen.clients.numbers():
            shape, own = torch.Size((1, *value.shape)), Clients.of([client])
            noise = self._redraw_noise(message, name, shape, own, step, seen)
            if noise is not None:
                total += noise[0]
        return (value.double() - total).to(value.dtype)

    def _redraw_noise(
        self,
        message: type[Message],
        name: str,
        shape: torch.Size,
        clients: Clients,
        step: int,
        seen: Seen,
    ) -> Tensor | None:
        """Return what was added to this field, or None if the adversary cannot draw it again."""
        turn = Turn(round=seen.header.round, step=step, clients=clients)
        method_noise = self._by_the_method(message, name, shape, turn)
        rule = self.x.policy.rule(message, name)
        if not self.seeded or rule.is_bare:
            return method_noise
        drawn = self._by_the_rule(rule, message, name, shape, turn)
        if drawn is None:
            self.left.add(f"{message.kind}.{name}")
            return method_noise
        return drawn if method_noise is None else method_noise + drawn

    def _by_the_rule(
        self, rule: Defence, message: type[Message], name: str, shape: torch.Size, turn: Turn
    ) -> Tensor | None:
        if not isinstance(rule, NoisyUpload):
            return None
        count = math.prod(shape) * self.x.partition.num_clients
        if rule.law(shape[1:]).is_discrete and count > MANY:
            return None
        stream = (message.kind, name, turn.round, turn.step)
        return rule.redraw(shape, noise_source(self.x.config), turn.clients, stream)

    def _by_the_method(
        self, message: type[Message], name: str, shape: torch.Size, turn: Turn
    ) -> Tensor | None:
        method, asked = self.x.method, self._asked.get((turn.round, turn.step))
        if method.own_noise is None or asked is None or asked.fields is None:
            return None
        body = codec.encode_fields(asked.fields)
        request = codec.decode(body, method.message(asked.header.kind))
        seed = derive_seed(self.x.config.seed, "clients")
        made = method.own_noise(self.x.config.method, self.x.public, seed, request, turn)
        noise = made.get(f"{message.kind}.{name}")
        return None if noise is None else noise.double().reshape(shape)

    @property
    def _kinds(self) -> set[str]:
        return {message.kind for message in self.x.method.messages}
