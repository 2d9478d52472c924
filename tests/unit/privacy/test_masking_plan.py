"""What is masked is settled before the run, on grids that hold every sum, or the run is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.privacy.defences.distributed_discrete import (
    LARGEST_SIGMA,
    LEAST_SIGMA,
    DistributedDiscrete,
)
from securefg.privacy.noise import SeededNoise
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import Disclosure, PlannedRelease
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.secagg.quantise import Grid
from securefg.secagg.rules import Rules
from securefg.settings.privacy import PrivacySettings
from securefg.settings.secagg import SecureAggregationSettings


class Another(Message, kind="test_masking_plan.Another"):
    counts: Tensor = private("sum", "what all clients send", means=Other())


class Sent(Message, kind="test_masking_plan.Sent"):
    weights: Tensor = private("sum", "model", means=Other(), weight="size")
    size: Tensor | None = private("sum", "number of nodes", means=Other())
    single: Tensor | None = private("each", "what the server needs from each", means=Other())


class Aligned(Message, kind="test_masking_plan.Aligned"):
    rows: Tensor = private("each", "rows", means=Other(), summed_by="method.alignment: reference")


class ByNode(Message, kind="test_masking_plan.ByNode"):
    rows: Tensor = private("sum", "row per node", means=Other(), rows="node", weight="size")
    size: Tensor | None = private("sum", "number of nodes", means=Other())


WEIGHTS = PlannedRelease(Sent, "weights", count=5, dim=100)
SIZE = PlannedRelease(Sent, "size", count=5, bound=200)
SINGLE = PlannedRelease(Sent, "single", count=5)
OTHER = PlannedRelease(Another, "counts", count=5, dim=100)
NOISE: dict[str, Any] = {"mechanism": "distributed_discrete", "noise_multiplier": 1.0}


def plan(
    *releases: PlannedRelease,
    num_clients: int = 10,
    masking: dict[str, Any] | None = None,
    **privacy: Any,
) -> Policy:
    tree = {"secure_aggregation": masking or {}, **privacy}
    return make_policy(PrivacySettings.model_validate(tree), releases, num_clients)


def test_all_sums_are_masked_by_default_and_nothing_else() -> None:
    policy = plan(WEIGHTS, SIZE, SINGLE)
    assert policy.masked.keys() == {"Sent.weights", "Sent.size"}
    assert policy.masks(Sent) == ["weights", "size"]


def test_without_secure_aggregation_nothing_is_masked() -> None:
    policy = make_policy(PrivacySettings(), [WEIGHTS, SIZE], 10)
    assert not policy.masked
    assert not policy.least_survivors


def test_fields_can_be_chosen() -> None:
    assert plan(WEIGHTS, SIZE, masking={"masked_fields": ["Sent.size"]}).masked.keys() == {
        "Sent.size"
    }


def test_an_unknown_field_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no private field 'Sent.foo'; this run sends Sent.wei"):
        plan(WEIGHTS, SIZE, masking={"masked_fields": ["Sent.foo"]})


def test_masking_a_field_whose_single_values_are_needed_is_refused() -> None:
    with pytest.raises(MaskingRefused, match=r"found Sent.single, of which the server needs every"):
        plan(WEIGHTS, SINGLE, masking={"masked_fields": ["Sent.weights", "Sent.single"]})


def test_masking_nothing_is_refused() -> None:
    with pytest.raises(MaskingRefused, match=r"found Sent\.single, .* protect it with noise"):
        plan(SINGLE, masking={})


def test_masking_an_empty_list_of_fields_is_refused() -> None:
    with pytest.raises(MaskingRefused, match=r"masked_fields: found an empty list"):
        plan(WEIGHTS, masking={"masked_fields": []})


def test_masking_a_run_without_private_fields_is_refused() -> None:
    with pytest.raises(MaskingRefused, match=r"no private field.*leave secure_aggregation out"):
        plan(masking={})


@pytest.mark.parametrize("fields", [None, ["Aligned.rows"]])
def test_refused_masks_name_the_settings_that_work(fields: list[str] | None) -> None:
    release = PlannedRelease(Aligned, "rows", count=5)
    with pytest.raises(MaskingRefused, match=r"Aligned\.rows, .*; set method\.alignment: ref"):
        plan(release, masking={"masked_fields": fields})


def test_distributed_noise_on_a_field_that_is_not_summed_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"privacy\.field_rules\.Sent\.single\.mechanism: found distr"
    ):
        plan(OTHER, SINGLE, **NOISE)


def test_distributed_noise_on_a_field_without_masks_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"Another\.counts.* secure_aggregation.masked_fields leaves it"
    ):
        plan(replace(WEIGHTS), OTHER, masking={"masked_fields": ["Sent.weights"]}, **NOISE)


@pytest.mark.parametrize("mechanism", ["local_gaussian", "distributed_discrete"])
def test_noise_on_a_census_beside_sums_without_noise_is_refused(mechanism: str) -> None:
    own = {"Another.counts": {"mechanism": mechanism, "noise_multiplier": 1.0}}
    with pytest.raises(ConfigError, match=rf"Another\.counts\.mechanism: found {mechanism}; "):
        plan(WEIGHTS, replace(OTHER, count=0), field_rules=own)


def test_noise_on_a_census_beside_noise_on_every_sum_is_planned() -> None:
    policy = plan(WEIGHTS, replace(OTHER, count=0), **NOISE)
    assert not policy.bare


def test_distributed_noise_on_a_privately_weighted_sum_is_refused() -> None:
    with pytest.raises(ConfigError, match="let clients count alike"):
        plan(WEIGHTS, SIZE, **NOISE)
    assert isinstance(plan(WEIGHTS, **NOISE).masked["Sent.weights"].rule, DistributedDiscrete)


def test_distributed_noise_without_masks_is_refused() -> None:
    with pytest.raises(ConfigError, match="distributed_discrete wants secure_aggregation"):
        make_policy(PrivacySettings(**NOISE), [WEIGHTS], 10)


@pytest.mark.parametrize("bits", [32, 64])
def test_a_scale_that_could_overflow_is_refused_with_the_largest_that_cannot(bits: int) -> None:
    scale = 2.0 ** (bits - 1)
    with pytest.raises(ConfigError, match="the sum could overflow: 10 clients"):
        plan(WEIGHTS, masking={"scale": scale, "ring_bits": bits})
    plan(WEIGHTS, masking={"scale": scale / 2**8, "ring_bits": bits})


@settings(max_examples=100)
@given(
    num_clients=st.integers(3, 5000),
    value_bound=st.floats(1e-3, 1e6),
    heaviest=st.integers(1, 10**6) | st.none(),
    bits=st.sampled_from([32, 64]),
)
def test_the_default_grid_holds_the_worst_sum_and_is_within_sixteen_of_the_finest(
    num_clients: int, value_bound: float, heaviest: int | None, bits: int
) -> None:
    releases = [WEIGHTS, PlannedRelease(Sent, "size", 5, bound=heaviest)] if heaviest else [WEIGHTS]
    masking = {"value_bound": value_bound, "ring_bits": bits}
    grid = plan(*releases, num_clients=num_clients, masking=masking).masked["Sent.weights"].grid
    assert grid.worst_case <= grid.ring.largest
    with pytest.raises(ConfigError, match="overflow"):
        Grid(num_clients, grid.clip, grid.scale * 16, grid.max_weight, dim=grid.dim, ring=grid.ring)


def test_local_noise_has_room_on_the_grid() -> None:
    policy = plan(WEIGHTS, mechanism="local_gaussian", noise_multiplier=3.0, clip_l2=2.0)
    masked = policy.masked["Sent.weights"]
    assert masked.grid.clip == 2.0 + 8 * masked.rule.sigma


@settings(max_examples=30)
@given(
    num_clients=st.integers(3, 300),
    multiplier=st.floats(0.3, 20),
    clip=st.floats(0.01, 100),
    dim=st.integers(1, 100_000),
    bits=st.sampled_from([32, 64]),
)
def test_a_discrete_plan_fits_the_ring_and_its_noise_the_grid(
    num_clients: int, multiplier: float, clip: float, dim: int, bits: int
) -> None:
    release = PlannedRelease(Sent, "weights", count=1, dim=dim)
    own = {**NOISE, "noise_multiplier": multiplier, "clip_l2": clip}
    masked = plan(release, num_clients=num_clients, masking={"ring_bits": bits}, **own).masked
    rule, grid = masked["Sent.weights"].rule, masked["Sent.weights"].grid
    assert isinstance(rule, DistributedDiscrete)
    assert LEAST_SIGMA <= grid.noise_sigma <= LARGEST_SIGMA
    assert grid.noise_sigma == rule.local_stddev(rule.plan_for(dim))
    assert grid.scale == rule.scale
    assert grid.worst_case <= grid.ring.largest


def test_too_little_noise_for_any_grid_is_refused() -> None:
    own = {**NOISE, "noise_multiplier": 1e-8}
    with pytest.raises(ConfigError, match=r"no grid of the 32-bit ring .* change the noise"):
        plan(WEIGHTS, num_clients=1000, **own)


@pytest.mark.parametrize(("senders", "survivors", "noises"), [(None, 80, 70), (20, 16, 6)])
def test_noise_is_sized_for_the_least_number_of_honest_survivors_among_those_who_send(
    senders: int | None, survivors: int, noises: int
) -> None:
    sent = replace(WEIGHTS, senders=senders)
    policy = plan(sent, num_clients=100, masking={"corrupt": 0.1, "dropout": 0.2}, **NOISE)
    rule = policy.masked["Sent.weights"].rule
    assert isinstance(rule, DistributedDiscrete)
    assert policy.least_survivors == {Sent.kind: survivors}
    assert rule.least_noises == noises


@pytest.mark.parametrize(
    ("num_clients", "masking", "noises"),
    [
        (4, {"corrupt": 0, "dropout": 0}, 3),
        (10, {"corrupt": 0, "dropout": 0.1}, 8),
        (6, {"corrupt": 0.05, "dropout": 0}, 5),
        (6, {"corrupt": 0.34, "dropout": 0}, 4),
    ],
)
def test_a_client_that_takes_its_own_noise_off_the_sum_meets_the_noise_that_is_booked(
    num_clients: int, masking: dict[str, float], noises: int
) -> None:
    """Where nobody colludes a client still reads the model that follows from the sum."""
    policy = plan(WEIGHTS, num_clients=num_clients, masking=masking, **NOISE)
    rule = policy.rule(Sent, "weights")
    assert isinstance(rule, DistributedDiscrete)
    assert rule.least_noises == noises
    left = max(1, policy.least_survivors[Sent.kind] - 1)
    sigma = rule.local_stddev(rule.plan_for(100)) * np.sqrt(left)
    booked = policy.mechanism(Sent, "weights", 100, 1).noise_multiplier
    assert booked is not None
    assert booked <= sigma / rule.noise_sensitivity(rule.plan_for(100))


def test_least_survivors_are_counted_for_the_senders_of_each_message() -> None:
    """A quorum of all clients would abort every session of a message that fewer clients send."""
    policy = plan(replace(WEIGHTS, senders=20), OTHER, num_clients=100, **NOISE)
    assert policy.least_survivors == {Sent.kind: 16, Another.kind: 88}
    noises = [policy.rules[name].least_noises for name in ("Sent.weights", "Another.counts")]
    assert noises == [11, 83]


def test_least_survivors_of_a_message_without_distributed_noise_are_not_planned() -> None:
    own = {"Another.counts": {"mechanism": "distributed_discrete", "noise_multiplier": 1.0}}
    policy = plan(replace(WEIGHTS, senders=20), OTHER, num_clients=100, field_rules=own)
    assert policy.least_survivors == {Another.kind: 88}


# The server picks 100 of 300, 100 of 1000 and 60 of 300 clients: it can pick every colluder.
PARTIAL = [(100, 300, 0.05), (100, 1000, 0.05), (60, 300, 0.15)]


@pytest.mark.parametrize(("asked", "everybody", "corrupt"), PARTIAL)
def test_noise_of_honest_survivors_under_partial_participation_reaches_the_booked_one(
    asked: int, everybody: int, corrupt: float
) -> None:
    """Draw the noise of the survivors of a session, leave out the colluders, measure the rest."""
    dim = 40_000
    tree = {"secure_aggregation": {"corrupt": corrupt}, **NOISE}
    sent = replace(WEIGHTS, dim=dim)
    policy = make_policy(PrivacySettings.model_validate(tree), [sent], asked, everybody)
    masked, booked = policy.masked["Sent.weights"], policy.mechanism(Sent, "weights", dim, 1)
    assert isinstance(masked.rule, DistributedDiscrete)
    assert booked.noise_multiplier is not None
    masking = SecureAggregationSettings(corrupt=corrupt)
    rules = Rules(masking, everybody, policy.least_survivors, policy.cohorts, policy.rounds)
    colluders = math.floor(corrupt * everybody + 1e-9)
    honest = Clients.of(range(rules.least_cohort(Sent.kind) - colluders))
    nothing = torch.zeros(len(honest), dim)
    noise = masked.encode(nothing, None, SeededNoise(0), honest, ("partial",))
    total = masked.grid.ring.to_signed(noise).sum(0)
    measured = total.std() / masked.rule.noise_sensitivity(masked.rule.plan_for(dim))
    assert measured >= 0.99 * booked.noise_multiplier


def test_policy_without_an_honest_survivor_is_refused() -> None:
    tree = {"secure_aggregation": {"corrupt": 0.3, "dropout": 0.25}, **NOISE}
    settings = PrivacySettings.model_validate(tree)
    with pytest.raises(ConfigError, match=r"up to 30 colluders and 10 drop-outs among the 40"):
        make_policy(settings, [WEIGHTS], 40, 100)


def test_the_noise_of_the_least_survivors_reaches_what_is_booked() -> None:
    """What the ledger books is the sum's over `least_noises`, rounding counted."""
    policy = plan(WEIGHTS, num_clients=50, **NOISE)
    rule = policy.rule(Sent, "weights")
    assert isinstance(rule, DistributedDiscrete)
    booked = policy.mechanism(Sent, "weights", 100, 1)
    sigma = rule.local_stddev(rule.plan_for(100))
    real = sigma * np.sqrt(rule.least_noises) / rule.noise_sensitivity(rule.plan_for(100))
    assert booked.noise_multiplier is not None
    assert booked.noise_multiplier <= real
    assert booked.noise_multiplier == pytest.approx(real, rel=1e-3)
    assert booked.masked


def test_rows_weighted_by_a_private_size_are_refused_under_masks() -> None:
    rows, size = PlannedRelease(ByNode, "rows", 5, 100, 100), PlannedRelease(ByNode, "size", 5)
    words = "method.weighting: found nodes; expected clients under masks. Rows of ByNode.rows"
    for masking in ({}, {"masked_fields": ["ByNode.size"]}):
        with pytest.raises(ConfigError, match=words):
            plan(rows, size, masking=masking)
    assert plan(rows).masks(ByNode) == ["rows"]
    assert not make_policy(PrivacySettings(), [rows, size], 10).masked


def test_release_that_needs_noise_is_refused_under_masks_alone() -> None:
    shown = Disclosure("method.key: found this; expected that", "here", "It shows", "Do not")
    needs_noise = replace(WEIGHTS, discloses=shown)
    words = r"method\.key: found this; expected that under masks here\. It shows\. Do not"
    with pytest.raises(ConfigError, match=words):
        plan(needs_noise)
    assert plan(needs_noise, **NOISE).masked
    assert plan(needs_noise, OTHER, masking={"masked_fields": ["Another.counts"]}).masked
