"""The policy has a rule for every planned field, keeps the target, and refuses what it cannot."""

from __future__ import annotations

import math

import pytest
from torch import Tensor

from securefg.foundation.errors import ConfigError, MaskingRefused, NoRule
from securefg.privacy.accountants import claim
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.ledger import Mechanism, Reach
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.settings.privacy import FieldSettings, PrivacySettings


class Update(Message, kind="test_policy.Update"):
    weights: Tensor = private("sum", "model", means=Other())
    embeddings: Tensor = private("each", "embedding per node", means=Other(), rows="node")
    labels: Tensor | None = private("sum", "labels", means=Other())
    step: int = public("step")


PLANNED = [
    PlannedRelease(Update, "weights", count=10, dim=12),
    PlannedRelease(Update, "embeddings", count=4, dim=100, num_rows=25),
]


def gaussian(**changes: object) -> PrivacySettings:
    given = {"mechanism": "local_gaussian", "clip_l2": 2.0, "noise_multiplier": 3.0, **changes}
    return PrivacySettings.model_validate(given)


def settled(settings: PrivacySettings) -> Policy:
    return make_policy(settings, PLANNED, num_clients=5)


def booked(policy: Policy, field: str) -> Mechanism:
    (release,) = [r for r in PLANNED if r.field == field]
    return policy.mechanism(Update, field, release.dim, release.num_rows)


def planned_epsilon(policy: Policy, unit: str) -> float:
    profile = {booked(policy, r.field): r.count for r in PLANNED}
    return claim([profile], unit, policy.delta).epsilon  # type: ignore[arg-type]


def test_by_default_every_planned_field_is_plain() -> None:
    policy = settled(PrivacySettings())
    assert policy.rules == {"Update.weights": Plain(), "Update.embeddings": Plain()}
    assert planned_epsilon(policy, "client") == math.inf


def test_the_unit_is_the_row_where_a_field_has_rows() -> None:
    rules = settled(gaussian()).rules
    assert rules["Update.weights"] == LocalGaussian(2.0, 3.0, "message", "replace_one")
    assert rules["Update.embeddings"] == LocalGaussian(2.0, 3.0, "row", "replace_one")


def test_a_unit_that_is_set_holds_for_every_field() -> None:
    rules = settled(gaussian(clip_per="message", adjacency="zero_out")).rules
    assert rules["Update.embeddings"] == LocalGaussian(2.0, 3.0, "message", "zero_out")


def test_a_field_may_have_a_rule_of_its_own() -> None:
    own = FieldSettings(
        mechanism="local_gaussian", clip_l2=7.0, clip_per="message", noise_multiplier=9
    )
    rules = settled(gaussian(field_rules={"Update.embeddings": own})).rules
    assert rules["Update.embeddings"] == LocalGaussian(7.0, 9.0, "message")
    assert rules["Update.weights"] == LocalGaussian(2.0, 3.0, "message")


def test_a_field_may_be_left_plain_and_then_the_claim_is_infinite() -> None:
    own = FieldSettings(mechanism="plain")
    policy = settled(gaussian(field_rules={"Update.weights": own}))
    assert policy.rules["Update.weights"] == Plain()
    assert planned_epsilon(policy, "client") == math.inf


def test_a_setting_for_a_field_that_is_not_sent_is_refused_with_those_that_are() -> None:
    settings = gaussian(field_rules={"Update.labels": FieldSettings(mechanism="plain")})
    with pytest.raises(ConfigError, match=r"Update\.labels.*sends Update\.weights, Update\.embed"):
        settled(settings)


def test_noise_without_a_multiplier_is_refused() -> None:
    own = FieldSettings(mechanism="local_gaussian")
    settings = PrivacySettings(field_rules={"Update.weights": own})
    with pytest.raises(ConfigError, match=r"Update\.weights needs either noise_mult"):
        settled(settings)


def test_a_private_field_that_was_not_planned_has_no_rule() -> None:
    policy = settled(gaussian())
    with pytest.raises(NoRule, match=r"Update\.labels is private and no rule covers it"):
        policy.rule(Update, "labels")
    with pytest.raises(NoRule):
        policy.mechanism(Update, "labels", 1, 1)


def test_the_fact_to_book_holds_what_accounting_needs() -> None:
    policy = settled(gaussian(adjacency="zero_out"))
    assert booked(policy, "embeddings") == Mechanism(
        field="Update.embeddings",
        rule="local_gaussian",
        per="row",
        noise_multiplier=3.0,
        num_rows=25,
        adjacency="zero_out",
        node=Reach(3.0 / 2 / 5, times=5),
        edge=Reach(3.0 / 2 / 5, times=5),
    )
    assert booked(policy, "weights").num_rows == 1


def test_a_plain_field_is_booked_without_noise() -> None:
    policy = settled(PrivacySettings())
    assert booked(policy, "weights").noise_multiplier is None


@pytest.mark.parametrize(("source", "protects"), [("system", True), ("seeded", False)])
def test_seeded_noise_is_booked_as_not_protecting(source: str, protects: bool) -> None:
    policy = settled(gaussian(noise_rng=source))
    assert policy.protects is protects
    assert booked(policy, "weights").protects is protects


@pytest.mark.parametrize("unit", ["client", "row"])
@pytest.mark.parametrize("target", [0.5, 8.0])
def test_a_target_epsilon_is_met_by_the_planned_releases(unit: str, target: float) -> None:
    settings = gaussian(noise_multiplier=None, target_epsilon=target, unit=unit, delta=1e-5)
    policy = settled(settings)
    assert planned_epsilon(policy, unit) == pytest.approx(target, abs=1e-6)


def test_a_target_keeps_the_multipliers_of_single_fields_in_proportion() -> None:
    own = FieldSettings(mechanism="local_gaussian", noise_multiplier=5.0)
    settings = gaussian(
        noise_multiplier=None, target_epsilon=2.0, field_rules={"Update.weights": own}
    )
    policy = settled(settings)
    weights, rows = policy.rules["Update.weights"], policy.rules["Update.embeddings"]
    assert weights.noise_multiplier == pytest.approx(5 * (rows.noise_multiplier or 0))
    assert planned_epsilon(policy, "client") == pytest.approx(2.0, abs=1e-6)


def test_a_target_without_a_noised_field_is_refused() -> None:
    bare = FieldSettings(mechanism="plain")
    settings = gaussian(
        noise_multiplier=None,
        target_epsilon=1.0,
        field_rules={"Update.weights": bare, "Update.embeddings": bare},
    )
    with pytest.raises(ConfigError, match="target_epsilon: this run sends no field with noise"):
        settled(settings)


def test_delta_unit_and_budget_are_those_of_the_settings() -> None:
    policy = settled(gaussian(delta=1e-7, unit="row", budget=3.0))
    assert (policy.delta, policy.unit, policy.budget) == (1e-7, "row", 3.0)


def test_masking_a_field_of_which_each_value_is_needed_is_refused_with_the_reason() -> None:
    settings = gaussian(secure_aggregation={"masked_fields": ["Update.embeddings"]})
    with pytest.raises(MaskingRefused, match=r"found Update\.embeddings, .*every single"):
        settled(settings)


def test_only_sums_are_masked_by_default() -> None:
    policy = settled(PrivacySettings.model_validate({"secure_aggregation": {}}))
    assert policy.masks(Update) == ["weights"]
    assert booked(policy, "weights").masked
    assert not booked(policy, "embeddings").masked


def test_a_mask_is_no_noise() -> None:
    policy = settled(PrivacySettings.model_validate({"secure_aggregation": {}}))
    assert booked(policy, "weights").noise_multiplier is None
    assert planned_epsilon(policy, "client") == math.inf


def test_distributed_noise_without_masking_is_refused() -> None:
    with pytest.raises(ConfigError, match="distributed_discrete wants secure_aggregation"):
        settled(gaussian(mechanism="distributed_discrete"))


def test_a_method_shares_one_epsilon_out_among_its_releases() -> None:
    """A multiplier sqrt 3 times as large is a quarter of the budget: 1/z^2 adds up."""
    planned = [PLANNED[0], PlannedRelease(Update, "labels", count=10, noisier=math.sqrt(3))]
    settings = gaussian(noise_multiplier=None, target_epsilon=4, clip_per="message")
    rules = make_policy(settings, planned, 5).rules
    first, second = (rules[release.name].noise_multiplier for release in planned)
    assert first is not None
    assert second == pytest.approx(math.sqrt(3) * first)
    alone = make_policy(settings, planned[:1], 5).rules[planned[0].name].noise_multiplier
    assert alone == pytest.approx(math.sqrt(3 / 4) * first, rel=1e-3)
    given = make_policy(gaussian(clip_per="message"), planned, 5).rules
    assert {rule.noise_multiplier for rule in given.values()} == {3.0}
