"""The audit of a run's mechanisms: all games against all messages, and against its masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from audits.guessed_noise import likely_seeds
from audits.mask_reuse import audit_masks
from audits.mechanisms.canary import measure_shape, play_canary, play_loud, play_moved
from audits.mechanisms.linked import ROWS, play_across, play_linked
from audits.mechanisms.message import AuditedMessage
from audits.mechanisms.redraw import (
    BIRTHDAYS,
    THOROUGH_BIRTHDAYS,
    guess_seeds,
    play_birthdays,
    play_redraw,
)
from audits.mechanisms.results import MechanismResult, Result, law_level, play_family
from audits.mechanisms.training import audit_training
from audits.mechanisms.whole import play_whole
from audits.uploads import MakeChannel, claimed_fields, open_channel
from securefg.engines.hosting import noise_source
from securefg.federation.channel import Channel
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.runs.assembly import Experiment


def audit_experiment(
    experiment: Experiment,
    trials: int,
    seed: int,
    make_channel: MakeChannel | None = None,
    thorough: bool = False,
) -> list[Result]:
    """Play all games against the mechanisms that this run would use, as one family.

    thorough  also look for fresh seeds of 32 bits, which takes minutes
    """
    config, policy = experiment.config, experiment.policy
    planned = experiment.method.planned(config.method, config.training, experiment.public)
    seeds = likely_seeds(config.seed)

    def own_channel(policy: Policy) -> Channel:
        return open_channel(policy, noise_source(config))

    def play(seed: int, confidence: float) -> list[Result]:
        channel = make_channel or own_channel
        results = play_messages(policy, planned, channel, trials, seed, confidence, seeds, thorough)
        if policy.protects:
            level = law_level(confidence)
            results += audit_training(planned, lambda: noise_source(config), policy.delta, level)
        return [*results, *audit_masking(experiment, seed, confidence)]

    return play_family(play, seed)


def audit_releases(
    policy: Policy,
    planned: Sequence[PlannedRelease],
    make_channel: MakeChannel,
    trials: int,
    seed: int,
    seeds: Sequence[int] = (),
    thorough: bool = False,
) -> list[Result]:
    """Audit every message with a field that promises noise, through channels of `make_channel`, and
    return the results.

    seeds  from which the noise is drawn again (without any, that game is not played)
    """

    def play(seed: int, confidence: float) -> list[Result]:
        return play_messages(
            policy, planned, make_channel, trials, seed, confidence, seeds, thorough
        )

    return play_family(play, seed)


def play_messages(
    policy: Policy,
    planned: Sequence[PlannedRelease],
    make_channel: MakeChannel,
    trials: int,
    seed: int,
    confidence: float,
    seeds: Sequence[int],
    thorough: bool = False,
) -> list[Result]:
    """Play all games against all messages once, and return the results."""
    unlimited = replace(policy, budget=None)
    audited = []
    for number, releases in enumerate(m for m in _by_message(planned) if claimed_fields(policy, m)):
        rng = np.random.default_rng([seed, number])
        message = AuditedMessage(unlimited, releases, make_channel, trials, rng, confidence)
        audited.append(message)
    own = [r for message in audited for r in _all_games(message, seeds, thorough)]
    return [*own, *play_across(audited), *play_moved(audited)]


def _all_games(message: AuditedMessage, seeds: Sequence[int], thorough: bool) -> list[Result]:
    slots = message.claimed_slots(
        ROWS
    )  # drawn first: the figures of a seed hang on the order of draws
    return [
        *play_canary(message),
        *play_loud(message),
        play_linked(message, slots),
        *measure_shape(message),
        *play_whole(message),
        *guess_seeds(message, seeds),
        *play_redraw(message),
        *play_birthdays(message, THOROUGH_BIRTHDAYS if thorough else BIRTHDAYS),
    ]


def audit_masking(experiment: Experiment, seed: int, confidence: float = 0.95) -> list[Result]:
    """Return a result that tells whether single masked uploads show nothing, or none if nothing is
    masked."""
    settings, masked = experiment.config.privacy.secure_aggregation, experiment.policy.masked
    if settings is None or not masked:
        return []
    return [
        MechanismResult(
            field=", ".join(masked),
            check="mask",
            unit="client",
            rule="masked",
            rounds=2,
            planned=2,
            claimed=0.0,
            cp=audit_masks(settings, experiment.policy.delta, seed, confidence),
        )
    ]


def _by_message(planned: Sequence[PlannedRelease]) -> Iterator[list[PlannedRelease]]:
    sent = [release for release in planned if release.count > 0]
    for message in dict.fromkeys(release.message for release in sent):
        yield [release for release in sent if release.message is message]
