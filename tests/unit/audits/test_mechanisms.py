"""The audit of mechanisms finds every mutant, and leaves sound mechanisms alone."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from audits.empirical_epsilon import epsilon_of_mu
from audits.guessed_noise import Claiming, NumpyNoise, Repeatable, TorchNoise, likely_seeds
from audits.mask_reuse import COINS, audit_masks, coins_bound
from audits.mechanisms import effort
from audits.mechanisms.audit import audit_experiment, audit_masking, audit_releases
from audits.mechanisms.message import AuditedMessage
from audits.mechanisms.redraw import guess_seeds, play_redraw
from audits.mechanisms.results import MechanismResult, failed_checks
from audits.uploads import WIDTH, Host, claimed_fields, open_channel
from securefg.federation.channel import Channel
from securefg.foundation.streams import derive_seed
from securefg.privacy.defences import distributed_discrete, local_gaussian
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.noise import NoiseSource, SystemNoise
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.privacy.stages import clip_l2
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.runs.assembly import Experiment, prepare
from securefg.secagg import client as secagg_client
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.privacy import PrivacySettings
from securefg.settings.secagg import SecureAggregationSettings
from tests.small import tree

TRIALS = 2000
LOCAL = {"mechanism": "local_gaussian", "target_epsilon": 8, "unit": "row"}
DISCRETE = {
    "mechanism": "distributed_discrete",
    "target_epsilon": 8,
    "adjacency": "zero_out",
    "secure_aggregation": {},
}


def experiment(privacy: dict[str, Any], rounds: int = 4) -> Experiment:
    halves = privacy["mechanism"] != "distributed_discrete"
    method = {"weighting": "equal", "pseudo_labels": halves, "pseudo_graph": halves}
    base = tree(Path("unused"))
    base["method"] |= method
    base["training"]["rounds"] = rounds
    return prepare(parse_config({**base, "privacy": privacy}))


@pytest.fixture(scope="module")
def local() -> Experiment:
    return experiment(LOCAL)


@pytest.fixture(scope="module")
def brief() -> Experiment:
    """Two rounds show what four do, where a mutant spoils single uploads or links two rounds."""
    return experiment(LOCAL, rounds=2)


def quiet_channel(seed: int) -> Callable[[Policy], Channel]:
    """Sound noise that is the same on every run of the tests, from seeds that nobody tries."""
    hosts = iter(range(1_000_000))

    def make(policy: Policy) -> Channel:
        return open_channel(policy, Repeatable(derive_seed(seed, "audited noise", next(hosts))))

    return make


def audited(
    prepared_run: Experiment,
    make_channel: Callable[[Policy], Channel] | None = None,
    trials: int = TRIALS,
) -> list[MechanismResult]:
    """All games but the guessing of seeds, which has tests of its own."""
    planned = prepared_run.method.planned(
        prepared_run.config.method, prepared_run.config.training, prepared_run.public
    )
    sound = with_noise(SystemNoise)
    return audit_releases(prepared_run.policy, planned, make_channel or sound, trials, seed=0)


def with_noise(make: Callable[[], NoiseSource]) -> Callable[[Policy], Channel]:
    return lambda policy: open_channel(policy, make())


def caught(results: list[MechanismResult]) -> set[str]:
    return {check for checks in failed_checks(results).values() for check in checks}


def of(results: list[MechanismResult], check: str) -> list[MechanismResult]:
    return [result for result in results if result.check == check]


# ------------------------------------------------------------------------------ sound mechanisms


@pytest.mark.parametrize("privacy", [LOCAL, DISCRETE])
def test_sound_mechanisms_are_not_flagged_and_the_bounds_come_close(
    privacy: dict[str, Any],
) -> None:
    results = audit_experiment(experiment(privacy), 20_000, 0, quiet_channel(1))
    assert failed_checks(results) == {}
    assert {r.verdict for r in results} == {"NOT_DETECTED"}
    for result in of(results, "canary"):
        assert result.rounds == result.planned == 4
        assert result.gdp is not None
        # Discrete noise is claimed by zCDP and with rounding in the bound: less tight.
        assert 0.85 * result.claimed < result.gdp.epsilon < result.claimed < result.ceiling
    for result in of(results, "shape"):
        assert 0.8 * result.claimed < result.lower
    wanted = {"canary", "loud", "linked", "shape", "seed", "whole", "redraw", "birthday"}
    assert {r.check for r in results} - {"mask"} == wanted


@pytest.mark.usefixtures("few_birthdays")
def test_the_claim_is_the_runs_own_for_all_planned_rounds(local: Experiment) -> None:
    """Three fields with the same multiplier each: together they cost the target."""
    results = of(audited(local, quiet_channel(2), 1000), "canary")
    assert [r.field for r in results] == [
        "Update.weights",
        "Update.predictions",
        "Update.embeddings",
    ]
    (alone,) = {round(r.claimed, 9) for r in results}
    assert alone < 8
    settings = PrivacySettings(**{**LOCAL, "target_epsilon": alone})
    weights = local.method.planned(local.config.method, local.config.training, local.public)[:1]
    cheaper = make_policy(settings, weights, 3).rules["Update.weights"]
    found = local.policy.rules["Update.weights"]
    assert isinstance(found, LocalGaussian)
    assert isinstance(cheaper, LocalGaussian)
    assert cheaper.noise_multiplier == pytest.approx(found.noise_multiplier, rel=1e-6)


@pytest.mark.usefixtures("few_birthdays")
def test_rounds_that_are_not_played_count_as_those_that_are(
    monkeypatch: pytest.MonkeyPatch, local: Experiment
) -> None:
    """One round of four is played: the claim is the run's, and halved noise still shows."""
    monkeypatch.setattr(effort, "NUMBERS", 1)
    whole = of(audited(local, quiet_channel(4)), "canary")
    assert [(r.rounds, r.planned, r.verdict) for r in whole] == [(1, 4, "NOT_DETECTED")] * 3
    alone = epsilon_of_mu(2 / _multiplier(local), local.policy.delta)
    assert whole[0].claimed == pytest.approx(alone)
    monkeypatch.setattr(local_gaussian, "sensitivity_l2", lambda c, adjacency: c)
    assert "canary" in caught(audited(local, quiet_channel(4)))


def _multiplier(found: Experiment) -> float:
    rule = found.policy.rules["Update.weights"]
    assert isinstance(rule, LocalGaussian)
    return rule.noise_multiplier


@pytest.mark.usefixtures("few_birthdays")
def test_a_sample_too_small_for_the_claim_is_inconclusive() -> None:
    """What spreads by a thousandth of the canary counts as bare: no game shows more than that."""
    large = experiment({"mechanism": "local_gaussian", "noise_multiplier": 5e-4, "unit": "row"})
    results = of(audited(large, quiet_channel(3), 400), "canary")
    assert {r.verdict for r in results} == {"INCONCLUSIVE"}
    assert all("at most" in r.because for r in results)
    assert all(r.claimed > r.ceiling for r in results)


@pytest.mark.usefixtures("few_birthdays")
def test_a_claim_of_200_is_tested_with_400_trials() -> None:
    """Known values show it, where the errors of a threshold could not."""
    results = audited(experiment({**LOCAL, "target_epsilon": 200}), quiet_channel(3), 400)
    assert {r.verdict for r in of(results, "canary")} == {"NOT_DETECTED"}
    assert min(r.lower / r.claimed for r in of(results, "canary")) > 0.7


def test_runs_without_a_claim_have_nothing_to_audit() -> None:
    assert audit_experiment(experiment({"mechanism": "plain"}), 1000, 0) == []
    assert audit_experiment(experiment({**LOCAL, "noise_rng": "seeded"}), 1000, 0) == []


class Sent(Message, kind="test_mechanisms.Sent"):
    some: Tensor = private("each", "numbers", means=Other())
    more: Tensor = private("each", "more numbers", means=Other(), rows="node")
    number: int = public("the round")


PLANNED = [PlannedRelease(Sent, "some", 2, 4), PlannedRelease(Sent, "more", 2, 12, 3)]


def slow_case(value: object) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


def all_pairs(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return every pair; those that show nothing beyond others are slow cases.

    Each item of either list is in at least one pair that is not slow.
    """
    return [
        pytest.param(one, other, marks=[] if i % len(first) == j % len(first) else pytest.mark.slow)
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


@pytest.mark.usefixtures("few_birthdays")
@pytest.mark.parametrize("epsilon", [0.5, slow_case(1.0), slow_case(2.0), 8.0])
def test_sound_mechanisms_are_flagged_no_oftener_than_at_95_percent(epsilon: float) -> None:
    settings = PrivacySettings(mechanism="local_gaussian", target_epsilon=epsilon)
    policy = make_policy(settings, PLANNED, 10)
    flagged = sum(
        bool(failed_checks(audit_releases(policy, PLANNED, quiet_channel(seed), 600, seed)))
        for seed in range(12)
    )
    assert flagged <= binom.ppf(0.999, 12, 0.05)


# ---------------------------------------------------------------------------------------- mutants


@pytest.mark.usefixtures("few_birthdays")
def test_halved_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch, local: Experiment) -> None:
    whole = local_gaussian.sensitivity_l2
    monkeypatch.setattr(
        local_gaussian, "sensitivity_l2", lambda c, adjacency: whole(c, adjacency) / 2
    )
    results = audited(local)
    assert caught(results) >= {"canary", "linked", "shape"}
    assert len(failed_checks(results)) == 4  # every field, and the message
    assert "whole" in caught(results)


@pytest.mark.usefixtures("few_birthdays")
def test_halved_sensitivity_of_discrete_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared_run, sample = experiment(DISCRETE), distributed_discrete.sample
    monkeypatch.setattr(
        distributed_discrete, "sample", lambda sigma, *rest: sample(sigma / 2, *rest)
    )
    assert caught(audited(prepared_run)) >= {"canary", "linked", "shape"}


@pytest.mark.usefixtures("few_birthdays")
def test_discrete_noise_of_the_first_round_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared_run, sample = experiment(DISCRETE), distributed_discrete._discretise_values

    def fading(rule: Any, values: Tensor, noise: Any, clients: Any, stream: Any) -> Any:
        quiet = rule if stream[2] == 1 else replace(rule, noise_multiplier=1e-2)
        return sample(quiet, values, noise, clients, stream)

    monkeypatch.setattr(distributed_discrete, "_discretise_values", fading)
    assert caught(audited(prepared_run)) >= {"canary", "linked"}


def _planned(prepared_run: Experiment) -> list[PlannedRelease]:
    config = prepared_run.config
    return [
        r
        for r in prepared_run.method.planned(config.method, config.training, prepared_run.public)
        if r.count and r.field == "weights"
    ]


class Drawn(Claiming):
    """Sound noise for mutants to spoil, the same on every run of the tests: what a mutant leaves
    sound would else be flagged now and then, at 95 %."""

    def __init__(self) -> None:
        super().__init__(derive_seed(0, "noise of mutants"))


class Repeating(Drawn):
    """The same normals for the same host in every round."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[Any, Tensor] = {}

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        key = (shape, clients, name[:2])
        if key not in self._kept:
            self._kept[key] = super().normal(shape, clients, name)
        return self._kept[key].clone()


class Shared(Drawn):
    """One client's normals for all clients of the host."""

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        return super().normal(shape, clients, name)[:1].expand(shape).clone()


class InPairs(Drawn):
    """Neighbours on a host get the same normals."""

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        drawn = super().normal(shape, clients, name)
        drawn[1::2] = drawn[: len(drawn) // 2 * 2 : 2]
        return drawn


class FirstRoundOnly(Drawn):
    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn if name[2] == 1 else torch.zeros_like(drawn)


class OneForAllFields(Repeating):
    """The fields of a message, of one shape, get the same normals, fresh in every round."""

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        return super().normal(shape, clients, (name[0], name[2], *name[2:]))


class OneForAllRows(Drawn):
    """The rows of an array get the same normals."""

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn[:, :1].expand(shape).clone() if len(shape) == 3 else drawn


class BareBeyondTheFirst(Drawn):
    """Noise on as many numbers of a row as the games with canaries look at."""

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        drawn = super().normal(shape, clients, name)
        drawn[..., WIDTH:] = 0
        return drawn


class ByPosition(SystemNoise):
    """Every host draws the same: the first client of each has the same noise."""

    def normal(self, shape: torch.Size, clients: Any, name: tuple[str | int, ...]) -> Tensor:
        key = derive_seed(len(clients), *name)
        generator = torch.Generator().manual_seed(key)
        return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.usefixtures("few_birthdays")
@pytest.mark.parametrize(
    "mutant", [Repeating, Shared, InPairs, OneForAllFields, OneForAllRows, ByPosition]
)
def test_the_same_noise_twice_is_caught(
    mutant: Callable[[], NoiseSource], brief: Experiment
) -> None:
    results = audited(brief, with_noise(mutant))
    assert "linked" in caught(results)
    # Single rounds look sound: no other game sees it.
    assert "loud" not in caught(results) or mutant is Shared


@pytest.mark.usefixtures("few_birthdays")
def test_noise_in_the_first_round_only_is_caught(brief: Experiment) -> None:
    results = audited(brief, with_noise(FirstRoundOnly))
    assert caught(results) >= {"canary", "linked"}


@pytest.mark.usefixtures("few_birthdays")
def test_long_rows_without_noise_at_their_end_are_caught(brief: Experiment) -> None:
    found = failed_checks(audited(brief, with_noise(BareBeyondTheFirst)))
    assert "shape" in found.get("Update.weights", [])


@pytest.mark.parametrize(
    ("kind", "seed"), all_pairs([Claiming, TorchNoise, NumpyNoise], ["run", "stream", 42])
)
def test_a_guessable_seed_is_caught(
    kind: type[Claiming], seed: str | int, local: Experiment
) -> None:
    run = local.config.seed
    known = {"run": run, "stream": derive_seed(run, "noise"), 42: 42}[seed]
    message = first_message(local, with_noise(lambda: kind(known)))
    (result,) = guess_seeds(message, likely_seeds(run))
    assert result.verdict == "VIOLATION"
    assert "guess" in result.because
    assert "VIOLATION" in {redrawn.verdict for redrawn in play_redraw(message)}


@pytest.mark.usefixtures("few_birthdays")
def test_a_guessable_seed_is_a_violation_of_the_whole_audit(local: Experiment) -> None:
    run, policy = local.config.seed, local.policy
    noise = with_noise(lambda: TorchNoise(run))
    results = audit_releases(policy, _planned(local), noise, 600, 0, likely_seeds(run))
    assert caught(results) >= {"seed", "redraw"}


def test_a_guessable_seed_of_discrete_noise_is_caught() -> None:
    found = experiment(DISCRETE)
    noise = with_noise(lambda: Claiming(7))
    results = audit_releases(
        found.policy, _planned(found), noise, 600, 0, likely_seeds(found.config.seed)
    )
    assert caught(results) >= {"seed"}


class KeptTorch(Claiming):
    """One generator from draw to draw, as people keep one; its numbers are of single precision."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, shape: torch.Size, *_: Any) -> Tensor:
        return torch.randn(shape, generator=self._generator).double()


class LegacyNumpy(Claiming):
    """`np.random.seed`, from draw to draw; it takes 32 bits."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._state = np.random.RandomState(seed % 2**32)

    def normal(self, shape: torch.Size, *_: Any) -> Tensor:
        return torch.from_numpy(self._state.standard_normal(tuple(shape)))


class AtEveryDraw(Claiming):
    """The clock is read at every draw, for every client on its own."""

    def normal(self, shape: torch.Size, *_: Any) -> Tensor:
        rows = [NumpyNoise(milliseconds()).normal(shape[1:], *_) for _row in range(shape[0])]
        return torch.stack(rows)


def milliseconds() -> int:
    return int(time.time() * 1000)


GUESSABLE = {
    "milliseconds": milliseconds,
    "some time ago": lambda: milliseconds() - 3000,
    "nanoseconds in milliseconds": lambda: time.time_ns() // 10**6,
    "microseconds": lambda: int(time.time() * 1e6),
    "seconds": lambda: int(time.time()),
    "process": os.getpid,
    "near the run's": lambda: BIG + 77,
}
BIG = 987_654_321


@pytest.mark.parametrize(
    ("kind", "seed"), all_pairs([KeptTorch, LegacyNumpy, NumpyNoise], list(GUESSABLE))
)
def test_noise_seeded_by_a_clock_or_from_another_small_space_is_caught(
    kind: type[Claiming], seed: str, local: Experiment
) -> None:
    results = guessed(local, with_noise(lambda: kind(GUESSABLE[seed]())))
    assert {result.verdict for result in results} & {"VIOLATION"}


def test_a_clock_that_is_read_at_every_draw_is_caught(local: Experiment) -> None:
    results = guessed(local, with_noise(lambda: AtEveryDraw(0)))
    assert {result.verdict for result in results} == {"VIOLATION"}
    assert "guessed seed" in results[0].because


def test_a_clock_that_seeds_discrete_noise_is_caught() -> None:
    results = guessed(experiment(DISCRETE), with_noise(lambda: Claiming(milliseconds())))
    assert {result.verdict for result in results} == {"VIOLATION"}


def test_the_search_of_seeds_accuses_no_noise_of_the_system(local: Experiment) -> None:
    for confidence in (0.95, 1 - 1e-5):
        results = guessed(local, with_noise(SystemNoise), confidence)
        assert {result.verdict for result in results} == {"NOT_DETECTED"}


def guessed(
    found: Experiment, make_channel: Callable[[Policy], Channel], confidence: float = 0.95
) -> list[Any]:
    """The game of seeds alone, against the first message."""
    return guess_seeds(first_message(found, make_channel, confidence), likely_seeds(BIG))


def first_message(
    prepared_run: Experiment, make_channel: Callable[[Policy], Channel], confidence: float = 0.95
) -> AuditedMessage:
    planned = [r for r in _planned(prepared_run) if r.message is _planned(prepared_run)[0].message]
    rng = np.random.default_rng(0)
    unlimited = replace(prepared_run.policy, budget=None)
    return AuditedMessage(unlimited, planned, make_channel, 600, rng, confidence)


@pytest.mark.usefixtures("few_birthdays")
def test_clipping_after_the_noise_is_caught(
    monkeypatch: pytest.MonkeyPatch, brief: Experiment
) -> None:
    def apply(rule: LocalGaussian, values: Tensor, noise: NoiseSource, *where: Any) -> Tensor:
        noisy = values.double() + rule.sigma * noise.normal(values.shape, *where)
        return clip_l2(noisy, rule.clip_l2, rule.per).to(values.dtype)

    monkeypatch.setattr(LocalGaussian, "apply", apply)
    assert "loud" in caught(audited(brief))


@pytest.mark.usefixtures("few_birthdays")
def test_a_clip_per_number_is_caught(monkeypatch: pytest.MonkeyPatch, brief: Experiment) -> None:
    monkeypatch.setattr(local_gaussian, "clip_l2", lambda x, c, per: x.double().clamp(-c, c))
    assert "loud" in caught(audited(brief, trials=20_000))


@pytest.mark.usefixtures("few_birthdays")
@pytest.mark.parametrize("clipped", [True, False])
def test_a_second_field_left_bare_is_caught(
    monkeypatch: pytest.MonkeyPatch, brief: Experiment, clipped: bool
) -> None:
    sound = Channel._protect_field

    def protect(channel: Channel, message: Message, name: str, x: Tensor, turn: Any) -> Tensor:
        if name == "embeddings":
            return clip_l2(x, 1.0, "row").to(x.dtype) if clipped else x
        return sound(channel, message, name, x, turn)

    monkeypatch.setattr(Channel, "_protect_field", protect)
    found = failed_checks(audited(brief, quiet_channel(6)))
    assert "Update.embeddings" in found
    assert not {"Update.weights", "Update.predictions"} & found.keys()


# ------------------------------------------------------------------------------------------ masks


@pytest.mark.parametrize("bits", [32, 64])
def test_masks_of_real_sessions_hide_the_coins(bits: Any) -> None:
    bound = audit_masks(SecureAggregationSettings(ring_bits=bits), 1e-5, 0)
    assert bound.epsilon == 0
    assert bound.ceiling > 5


def reused(rows: Any, masks: Any) -> None:
    """The same keystream on a row whenever it is masked, as if a key served two sessions."""
    for number, row in enumerate(rows):
        row += np.frombuffer(Keystream(Secret(bytes([number] * 32))).read(row.nbytes), row.dtype)


def one_mask_for_all(rows: Any, masks: Any) -> None:
    rows += np.frombuffer(Keystream.fresh().read(rows[0].nbytes), rows.dtype)


def opposite(rows: Any, masks: Any) -> None:
    """Pairs take one mask with either sign and no mask of their own."""
    pad = np.frombuffer(Keystream.fresh().read(rows[0].nbytes), rows.dtype)
    rows[::2] += pad
    rows[1::2] -= pad


@pytest.mark.parametrize("mutant", [reused, one_mask_for_all, opposite, lambda rows, masks: None])
def test_a_mask_key_used_twice_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Any, Any], None]
) -> None:
    found = experiment(DISCRETE)
    monkeypatch.setattr(secagg_client, "apply_row_masks", mutant)
    # Such masks do not cancel, so the session's own end is not asked for.
    results = audit_masking(found, 0)
    assert [r.verdict for r in results] == ["VIOLATION"]
    assert results[0].lower == results[0].ceiling


def test_the_coins_of_uniform_rows_cannot_be_read() -> None:
    rng = np.random.default_rng(0)
    coins = rng.integers(0, 2, COINS)
    rows = rng.integers(0, 2**32, (9, COINS), dtype=np.uint32)
    assert coins_bound(rows[0], rows[1:], coins, 1e-5).epsilon == 0


# ---------------------------------------------------------------------------------------- uploads


def test_uploads_are_what_the_channel_emits(local: Experiment) -> None:
    """With next to no noise the canary comes back as it went in, clipped."""
    rules = {
        name: replace(rule, noise_multiplier=1e-9) if isinstance(rule, LocalGaussian) else rule
        for name, rule in local.policy.rules.items()
    }
    policy = replace(local.policy, rules=rules)
    host = Host(policy, _planned(local), open_channel(policy, SystemNoise()), companion=True)
    values = np.full((5, 1, 4), 3.0)
    seen, own = host.emit_views({"weights": values}, host.enrol_clients(5), 1)
    assert seen["weights"] == pytest.approx(np.full((5, 1, 4), 0.5), abs=1e-6)
    assert own["weights"] == pytest.approx(np.zeros((5, 1, 4)), abs=1e-6)


def test_a_discrete_trial_is_the_sum_over_the_least_honest_survivors() -> None:
    prepared_run = experiment(DISCRETE)
    (release,) = _planned(prepared_run)
    rule = prepared_run.policy.rules[release.name]
    assert isinstance(rule, distributed_discrete.DistributedDiscrete)
    host = Host(prepared_run.policy, [release], open_channel(prepared_run.policy, SystemNoise()))
    assert host.cohort == rule.least_noises
    seen, _ = host.emit_views({}, host.enrol_clients(4000), 1)
    one = rule.local_stddev(rule.plan_for(seen["weights"].shape[-1])) / rule.scale
    assert seen["weights"].std() == pytest.approx(one * math.sqrt(rule.least_noises), rel=0.05)


def test_no_client_is_enrolled_twice(local: Experiment) -> None:
    host = Host(local.policy, _planned(local), open_channel(local.policy, SystemNoise()))
    first, second = host.enrol_clients(10), host.enrol_clients(10)
    assert second[0][0] == sum(count for _, count in first)


def test_plain_fields_and_seeded_noise_claim_nothing(local: Experiment) -> None:
    planned = _planned(local)
    assert claimed_fields(local.policy, planned) == planned
    assert claimed_fields(replace(local.policy, protects=False), planned) == []


@pytest.mark.usefixtures("few_birthdays")
def test_a_config_is_enough(tmp_path: Path) -> None:
    config: RunConfig = parse_config(
        {**tree(tmp_path, "nfedgnn"), "partition": {"name": "one_node"}}
    )
    config = config.model_copy(
        update={"privacy": PrivacySettings(mechanism="local_gaussian", noise_multiplier=2.0)}
    )
    results = audit_experiment(prepare(config), 1000, 0)
    assert {r.field for r in results} == {"Latents.latent", "Latents (latent)"}
