"""Recorded noise drawn again: by channels of the run's own code, and from seeds that it may have.

A host's channel seals what the host answers to a recorded request, for the same clients and round.
Noise from a constant key, a hash of public names or of the value, or the run's seed comes back as
it was recorded. The noise of a masked sum comes back too, once the uploads of all its survivors are
added. `seed_test` compares one upload with the numbers of seeds that somebody would try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from audits.generators import FIRST, Rows, first_normals
from audits.guessed_noise import (
    BEFORE,
    clock_seeds,
    guess_test,
    guessed_sources,
    likely_seeds,
    likeness_test,
    near_seeds,
    small_space,
)
from audits.mechanisms.redraw import redraw_tests
from audits.noise_law import LawTest
from audits.truth import Truth
from audits.uploads import open_channel
from securefg.engines import hosting
from securefg.federation.channel import Channel
from securefg.privacy.law import Law
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message, Value
from securefg.protocol.transcript import Record

Floats = NDArray[np.float64]
Part = tuple[str, Message, Clients]
"""A host's name, what it answered, and for whom."""

REDRAWN_ROUNDS: Final = 3
"""Of every field, so many messages or sums are drawn again."""

MOST_DRAWS: Final = 10
LEAST_DRAWS: Final = 6
NUMBERS: Final = 1 << 21
SEEDS: Final = 4
"""So many likely seeds, the run's own first, are tried against a recorded sum. Single uploads are
searched further (`seed_test`)."""


class Redraws:
    """A set of the channels of a run's hosts, made anew."""

    def __init__(self, truth: Truth) -> None:
        self._config, experiment = truth.config, truth.experiment
        self._policy = replace(experiment.policy, budget=None)
        self._channels: dict[str, Channel] = {}
        self._sent: dict[tuple[str, int, int], Mapping[str, Value]] = {}
        self._rounds: dict[tuple[str, str], int] = {}

    def of_upload(self, record: Record, reply: Message, name: str) -> list[Floats]:
        """Return draws of what one host sent, (clients, rows, width) each, or none if enough were
        made."""
        part = (record.sender, reply, Clients.parse(record.clients))

        def draw_upload(noise: NoiseSource | None) -> Floats:
            return self._seal_values(part, record, name, noise)

        return self._make_draws(reply, name, [part], draw_upload)

    def of_sum(
        self, record: Record, parts: Sequence[Part], name: str, survivors: set[int]
    ) -> tuple[list[Floats], list[Floats]]:
        """Return draws of what the survivors add up, (survivors, rows, width) each, and draws from
        seeds that somebody would try."""

        def draw_sum(noise: NoiseSource | None) -> Floats:
            return np.concatenate(
                [
                    self._seal_values(part, record, name, noise)[
                        [k in survivors for k in part[2].numbers()]
                    ]
                    for part in parts
                ]
            )

        again = self._make_draws(parts[0][1], name, parts, draw_sum)
        if len(again) < LEAST_DRAWS:
            return again, []
        seeds = likely_seeds(self._config.seed)[:SEEDS]
        return again, [draw_sum(source) for source in guessed_sources(seeds, discrete=True)]

    def _make_draws(
        self,
        reply: Message,
        name: str,
        parts: Sequence[Part],
        draw: Callable[[NoiseSource | None], Floats],
    ) -> list[Floats]:
        """Return draws. The first is by channels that are kept from round to round, as a run keeps
        them. The others are by channels made anew."""
        key = (reply.kind, name)
        self._rounds[key] = self._rounds.get(key, 0) + 1
        value = getattr(reply, name)
        assert isinstance(value, Tensor)
        numbers = sum(len(clients) for _, _, clients in parts) * value[0].numel()
        if self._rounds[key] > REDRAWN_ROUNDS or numbers * LEAST_DRAWS > NUMBERS:
            return []
        again = [draw(None)]
        if self._rounds[key] == 1:
            more = min(MOST_DRAWS, NUMBERS // numbers) - 1
            again += [draw(hosting.noise_source(self._config)) for _ in range(more)]
        return again

    def _seal_values(
        self, part: Part, record: Record, name: str, noise: NoiseSource | None
    ) -> Floats:
        """Return (clients, rows, width): the noisy values of a host, without masks. Without a
        source of noise, they come from the host's own channel, which seals every message once."""
        host, reply, clients = part
        turn = Turn(record.round, record.step, clients, record.attempt)
        if noise is None:
            fields = self._by_its_own_channel(host, reply, turn)
        else:
            fields = open_channel(self._policy, noise).seal(reply, turn).fields
        sealed = fields[name]
        assert isinstance(sealed, Tensor)
        masked = self._policy.mask(type(reply), name)
        if masked is None:
            values: Floats = sealed.double().numpy()
        else:
            values = masked.grid.dequantise_total(sealed.numpy().view(masked.grid.ring.dtype))
        shape = getattr(reply, name).shape
        return np.asarray(values.reshape(len(clients), -1, shape[-1] if len(shape) > 1 else 1))

    def _by_its_own_channel(self, host: str, reply: Message, turn: Turn) -> Mapping[str, Value]:
        if host not in self._channels:
            self._channels[host] = open_channel(self._policy, hosting.noise_source(self._config))
        key = (host, turn.round, turn.step)
        if key not in self._sent:
            self._sent = {k: v for k, v in self._sent.items() if k[1] == turn.round}
            self._sent[key] = self._channels[host].seal(reply, turn).fields
        return self._sent[key]


def compare_draws(
    again: Sequence[Floats],
    seen: Floats,
    clean: Floats,
    sigma: float,
    law: Law,
    guesses: Sequence[Floats] = (),
) -> list[LawTest]:
    """Return tests whether recorded noise comes back, and whether noise depends on the value that
    it hides."""
    if not again:
        return []
    flat = clean.reshape(len(clean), -1)

    def scores(values: Floats) -> Floats:
        return law.normal_scores((values.reshape(flat.shape) - flat) / sigma)

    recorded, drawn = scores(seen), np.stack([scores(each) for each in again])
    tests = [
        guess_test(recorded[client], list(drawn[:, client]), "recorded noise drawn again")
        for client in range(min(len(flat), 8))
    ]
    if len(drawn) >= LEAST_DRAWS:
        tests += redraw_tests(drawn, flat)
    if guesses:
        tests.append(guess_test(recorded, [scores(each) for each in guesses]))
    return tests


def single_draws(again: Sequence[Floats], clean: Floats, law: Law) -> list[LawTest]:
    """Return tests whether single uploads under masks depend on the value that they hide."""
    flat = clean.reshape(len(clean), -1)
    found = [(each.reshape(flat.shape) - flat) / law.sd for each in again]
    drawn = np.stack([law.normal_scores(each) for each in found])
    return [replace(test, name=f"{test.name}, one client") for test in redraw_tests(drawn, flat)]


STARTING = 10.0
"""Seconds before a run's first message in which its parties may have read a clock."""


@dataclass(frozen=True)
class FirstUpload:
    """A client's noise in the first upload of a field, in standard deviations.

    A client's noise does not depend on who shares its host, so that one row is drawn of each guess.

    began, seconds  when the run's first message, and this one, were recorded
    """

    noise: Tensor
    client: Clients
    stream: tuple[str | int, ...]
    began: float
    seconds: float


def seed_test(run_seed: int, upload: FirstUpload, by_rows: bool) -> LawTest:
    """Return a test of the first upload against seeds: known numbers, and the clock since the run
    began, a minute before the upload at most."""
    now = int(upload.seconds)
    seeds = [*likely_seeds(run_seed), *range(now - BEFORE, now + 1)]
    flat = upload.noise.reshape(1, -1)
    shape, width = upload.noise.shape if by_rows else flat.shape, min(flat.shape[1], FIRST)
    sources = guessed_sources(seeds, discrete=False)
    guesses = np.zeros((len(sources), FIRST), np.float32)
    for guess, source in zip(guesses, sources, strict=True):
        drawn = source.normal(shape, upload.client, upload.stream)
        guess[:width] = drawn.reshape(-1)[:width].numpy()
    early = max(upload.began - STARTING, upload.seconds - BEFORE)
    tables = [guesses, _clock_space(run_seed, early, upload.seconds), small_space()]
    return likeness_test(flat[0].numpy(), tables)


@lru_cache(maxsize=1)
def _clock_space(run_seed: int, early: float, last: float) -> Rows:
    """Return the first normals of near seeds, and of clocks between two moments. Fields of one
    upload share them."""
    return first_normals([*near_seeds(run_seed), *clock_seeds(early, last)])
