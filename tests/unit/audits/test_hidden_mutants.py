"""Mutants that once passed in silence: noise again with other signs, shared by two messages, clips
of some rows or samples, samples drawn together, and persons whom no declared distance covers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audits.books import reconcile_books
from audits.curves.collect import _counts_as_leak, _unchecked_leaks
from audits.curves.plan import Asked
from audits.findings.record import Finding, Verdict
from audits.influence import audit_influences
from audits.mechanisms.linked import play_across
from audits.mechanisms.training import by_tensors, training_tests
from audits.noise_law import law_tests, worst_test
from audits.recorded import recorded_noise
from audits.truth import Truth
from securefg.methods.two_sums import features
from securefg.privacy import defence
from securefg.privacy.defences import distributed_discrete, dp_sgd
from securefg.privacy.defences.dp_sgd import DpSgd
from securefg.privacy.noise import SystemNoise
from securefg.privacy.private_training import TrainingPlan
from securefg.privacy.stages import clip_l2
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret
from tests.unit.audits.test_channel_mutants import Edit, Upload, audited
from tests.unit.audits.test_promise_mutants import made, messages

Patch = pytest.MonkeyPatch
Spoil = Callable[[Patch], None]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("honest"))


# ------------------------------------------------------------------------- sizes that come again


def _signs(like: Tensor) -> Tensor:
    return torch.from_numpy(np.random.default_rng().choice([-1.0, 1.0], tuple(like.shape)))


def _again(kept: Tensor, fresh: Tensor) -> Tensor:
    """Nearly the size of a noise that was there before, with fresh signs."""
    return _signs(fresh) * (0.95 * kept + 0.31 * fresh)


def sizes_of_the_first_round(u: Upload) -> Tensor:
    first = u.kept.setdefault((u.name, str(u.turn.clients)), u.noise)
    return u.clean + (u.noise if u.turn.round == 1 else _again(first, u.noise))


def sizes_of_the_neighbour(u: Upload) -> Tensor:
    noise, even = u.noise.clone(), len(u.noise) // 2 * 2
    noise[1:even:2] = _again(u.noise[0:even:2], u.noise[1:even:2])
    return u.clean + noise


def sizes_of_the_other_field(u: Upload) -> Tensor:
    own_noise = u.noise.reshape(len(u.noise), -1).clone()
    first = u.kept.setdefault((str(u.turn.clients), u.turn.round), own_noise)
    if first is not own_noise:
        width = min(first.shape[1], own_noise.shape[1])
        own_noise[:, :width] = _again(first[:, :width].flip(1), own_noise[:, :width])
    return u.clean + own_noise.reshape(u.noise.shape)


def clipped_over_all_rows(u: Upload) -> Tensor:
    if u.name == "flat":
        return u.clean + u.noise
    return clip_l2(u.raw, u.raw.shape[1] ** 0.5, "message") + u.noise


@pytest.mark.parametrize(
    "edit",
    [
        sizes_of_the_first_round,
        sizes_of_the_neighbour,
        sizes_of_the_other_field,
        clipped_over_all_rows,
    ],
)
def test_whole_messages_spoiled_by_size_or_by_a_common_clip_are_found(edit: Edit) -> None:
    whole = [result for result in audited(edit) if result.check == "whole"]
    assert "VIOLATION" in {result.verdict for result in whole}


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.3])
def test_sizes_of_independent_noise_are_not_taken_for_a_repetition(scale: float) -> None:
    """Not where the noise has another size than claimed, either: that is another test's matter."""
    for seed in range(4):
        noise = scale * np.random.default_rng(seed).standard_normal((60, 8, 16))
        tests = [t for t in law_tests(noise, rounds=3) if "by size alone" in t.name]
        assert len(tests) == 4
        assert min(test.p for test in tests) > 1e-4


# --------------------------------------------------------------------- noise that two sums share


def one_key_for_both_sums(patched: Patch) -> None:
    """Every message of a kind has a fresh key; the first of the other kind has the same one."""
    counts: dict[Any, int] = {}
    keys: dict[Any, bytes] = {}

    def read(noise: Any, clients: Any, name: Any) -> Any:
        kind = (id(noise), name[0])
        counts[kind] = counts.get(kind, 0) + 1
        key = keys.setdefault((id(noise), str(clients), counts[kind]), secrets.token_bytes(32))
        return Keystream(Secret(key)).read

    patched.setattr(SystemNoise, "random_bytes", read)


def sizes_of_the_other_sum(patched: Patch) -> None:
    """The second sum takes the sizes of the first one's noise, backwards, with fresh signs."""
    sound = distributed_discrete._discretise_values
    kept: dict[str, list[Any]] = {}

    def spoiled(rule: Any, values: Tensor, noise: Any, clients: Any, stream: Any) -> Any:
        whole = sound(rule, values, noise, clients, stream)
        clean = clip_l2(values, rule.clip_l2, rule.per).reshape(len(values), -1).numpy()
        sigma = rule.local_stddev(rule.plan(values))
        scaled = (whole - clean * rule.scale) / sigma
        if stream[1] == "sums":
            kept.setdefault(str(clients), []).append(scaled)
            return whole
        first = kept[str(clients)].pop(0)
        width = min(first.shape[1], scaled.shape[1])
        signs = np.random.default_rng().choice([-1, 1], (len(scaled), width))
        scaled[:, :width] = first[:, :width][:, ::-1] * signs
        return np.round(clean * rule.scale + scaled * sigma).astype(np.int64)

    patched.setattr(distributed_discrete, "_discretise_values", spoiled)


@pytest.mark.parametrize("spoil", [one_key_for_both_sums, sizes_of_the_other_sum])
def test_noise_that_two_messages_share_is_found(
    spoil: Spoil, honest: Truth, monkeypatch: Patch
) -> None:
    spoil(monkeypatch)
    (found,) = play_across(messages(honest.experiment))
    assert found.verdict == "VIOLATION"
    assert found.field == "ClassSums.sums, Products.products"


def test_noise_of_two_honest_messages_is_not_shared(honest: Truth) -> None:
    for _ in range(10):
        (found,) = play_across(messages(honest.experiment))
        assert found.verdict == "NOT_DETECTED"


def test_noise_that_ends_after_the_first_step_is_found_in_the_record(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """The games play the first step of a round alone."""
    sound = distributed_discrete.sample
    steps: list[int] = []
    discrete = distributed_discrete._discretise_values

    def spoiled(rule: Any, values: Tensor, noise: Any, clients: Any, stream: Any) -> Any:
        steps[:] = [stream[3]]
        return discrete(rule, values, noise, clients, stream)

    def sample(sigma: float, *rest: Any) -> Any:
        return sound(sigma if steps == [1] else sigma / 1000, *rest)

    monkeypatch.setattr(distributed_discrete, "_discretise_values", spoiled)
    monkeypatch.setattr(distributed_discrete, "sample", sample)
    assert {f.verdict for f in recorded_noise(made(tmp_path))} == {Verdict.VIOLATION}


# ------------------------------------------------------------------------------ declared influence


def features_bounded_up_to_length(low: float, high: float) -> Spoil:
    def spoil(patched: Patch) -> None:
        def own_rows(graph: Any, link_columns: int = 0) -> Tensor:
            assert not link_columns
            rows: Tensor = graph.features.double()
            scaled: Tensor = rows / rows.norm(dim=1, keepdim=True).clamp(low, high)
            return scaled

        patched.setattr(features, "own_rows", own_rows)

    return spoil


def short_features_made_long(patched: Patch) -> None:
    sound = features.own_rows

    def own_rows(graph: Any, link_columns: int = 0) -> Tensor:
        short = graph.features.norm(dim=1, keepdim=True) < 1e-3
        return sound(graph, link_columns) * torch.where(short, 3.0, 1.0)

    patched.setattr(features, "own_rows", own_rows)


def hubs_uncut(patched: Patch) -> None:
    """What a node with more than a hundred links meets is not cut to length 1."""
    sound, links_of = features.cut_rows, features.links_of
    degrees: list[Tensor] = []

    def remembering(graph: Any) -> Any:
        links = links_of(graph)
        degrees[:] = [torch.from_numpy(np.asarray(links.sum(1)).reshape(-1, 1))]
        return links

    def cut(rows: Tensor) -> Tensor:
        known = bool(degrees) and len(degrees[0]) == len(rows)
        return torch.where(degrees[0] > 100, rows, sound(rows)) if known else sound(rows)

    patched.setattr(features, "links_of", remembering)
    patched.setattr(features, "cut_rows", cut)


@pytest.mark.parametrize(
    "spoil",
    [
        features_bounded_up_to_length(1e-12, 50.0),
        features_bounded_up_to_length(0.0, float("inf")),
        short_features_made_long,
        hubs_uncut,
    ],
    ids=["long features", "no features: not a number", "short features", "hubs"],
)
def test_persons_that_the_data_do_not_have_refute_a_declaration(
    spoil: Spoil, honest: Truth, monkeypatch: Patch
) -> None:
    spoil(monkeypatch)
    assert Verdict.VIOLATION in {finding.verdict for finding in audit_influences(honest, 0)}


def test_books_find_noise_that_is_shared_among_too_many(tmp_path: Path, monkeypatch: Patch) -> None:
    """The reader of a sum knows its own noise."""
    monkeypatch.setattr(defence, "_unknown_noises", lambda threat, name, senders: senders)
    finding = reconcile_books(made(tmp_path))
    assert finding.verdict is Verdict.VIOLATION
    assert "shared among 4 clients" in finding.because


# ---------------------------------------------------------------------------------------- DP-SGD

PLAN = DpSgd(TrainingPlan(5, 0.1, 1.0, 1.0, 0.2), 10)


class OneCoinForAll(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn[:, :1].expand(shape).clone() if name[-2] == "sample" else drawn


class SameSamplesInAllSteps(SystemNoise):
    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        if name[-2] == "noise":
            return drawn
        return self.kept.setdefault((str(clients), name[:-1], shape), drawn)


class NoNoiseFromTheThirdStepOn(SystemNoise):
    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        return drawn * (name[-2] == "sample" or name[-1] < 2)


class ThirdStepCancels(SystemNoise):
    def __init__(self) -> None:
        self.kept: dict[Any, Tensor] = {}

    def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        drawn = super().normal(shape, clients, name)
        if name[-2] == "noise":
            own, step = (str(clients), name[:-1]), name[-1]
            self.kept[own, step] = drawn
            if step % 3 == 2:
                return -(self.kept[own, step - 1] + self.kept[own, step - 2]) / 2**0.5
        return drawn


@pytest.mark.parametrize(
    "noise",
    [OneCoinForAll, SameSamplesInAllSteps, NoNoiseFromTheThirdStepOn, ThirdStepCancels],
)
def test_dp_sgd_with_spoiled_coins_or_later_steps_is_found(noise: type[SystemNoise]) -> None:
    found = worst_test(training_tests(by_tensors, PLAN, noise()), 1e-5)
    assert found is not None
    assert found.severe


def clipped_by_tensor(x: Tensor, bound: float, per: Any) -> Tensor:
    halves = x.split(x.shape[-1] // 2, -1)
    return torch.cat([clip_l2(half, bound, per) for half in halves], -1)


def first_sample_clipped(x: Tensor, bound: float, per: Any) -> Tensor:
    clipped = clip_l2(x, bound, per)
    clipped[:, 1:] = x[:, 1:]
    return clipped


@pytest.mark.parametrize("clip", [clipped_by_tensor, first_sample_clipped])
def test_dp_sgd_with_a_clip_of_parts_is_found(clip: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(dp_sgd, "clip_l2", clip)
    found = worst_test(training_tests(by_tensors, PLAN, SystemNoise()), 1e-5)
    assert found is not None
    assert found.name == "any sample beyond the clip"


def test_dp_sgd_with_a_fixed_number_of_samples_is_not_the_claimed_sampling(
    monkeypatch: Patch,
) -> None:
    def drawn(plan: TrainingPlan, samples: Any, noise: Any, clients: Any, name: Any) -> Tensor:
        ranks = noise.normal(samples.inputs.shape[:2], clients, name).argsort(1).argsort(1)
        chosen: Tensor = ranks < round(plan.sampling * samples.num_samples)
        return chosen

    monkeypatch.setattr(dp_sgd, "_draw_samples", drawn)
    assert worst_test(training_tests(by_tensors, PLAN, SystemNoise()), 1e-5) is not None


# ------------------------------------------------------------------------------ the page of a curve


def _check(name: str, verdict: Verdict = Verdict.NOT_DETECTED) -> Finding:
    return Finding(
        adversary="server",
        attack="recorded_noise",
        method="m",
        metric="-",
        unit="client",
        verdict=verdict,
        because="-",
        check=name,
    )


def test_curve_with_a_promise_that_was_not_checked_in_every_seed_is_not_green() -> None:
    whole = [_check(name) for name in ("books", "mechanisms", "recorded")]
    assert _unchecked_leaks(4.0, [whole, whole]) == ()
    assert _unchecked_leaks(None, [[], []]) == ()
    (leak,) = _unchecked_leaks(4.0, [whole, whole[:1]])
    assert leak.verdict == Verdict.INCONCLUSIVE.value
    assert "mechanisms, recorded" in leak.because


def test_curve_excludes_no_check_of_a_promise() -> None:
    finding = _check("recorded", Verdict.INCONCLUSIVE)
    assert _counts_as_leak(finding, Asked((), (), excluded=frozenset({"recorded_noise"})))
