"""A masked field goes to the ring and comes back within the grid, or with the planned noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from securefg.federation.channel import Channel
from securefg.foundation.errors import ConfigError, PrivacyError, RunFailed
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.ledger import Ledger
from securefg.privacy.masking_plan import MaskedField
from securefg.privacy.noise import SeededNoise, SystemNoise
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.secagg.derive import MaskContext
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring, RingArray

DISCRETE = DistributedDiscrete(
    clip_l2=1.0, noise_multiplier=0.5, per="message", scale=2.0**10, least_noises=4
)


def everybody(count: int) -> Clients:
    return Clients(((0, count),))


def total(rows: RingArray) -> RingArray:
    return rows.sum(0, dtype=rows.dtype)


def discrete_field(rule: DistributedDiscrete = DISCRETE, dim: int = 64) -> MaskedField:
    sigma = rule.local_stddev(rule.plan_for(dim))
    return MaskedField(rule, Grid(8, rule.clip_l2 + 1 / rule.scale, rule.scale, noise_sigma=sigma))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_clients=st.integers(1, 9),
    shape=st.sampled_from([(3,), (2, 5), ()]),
    bits=st.sampled_from([32, 64]),
    weighted=st.booleans(),
)
def test_the_sum_comes_back_within_the_error_of_the_grid(
    seed: int, num_clients: int, shape: tuple[int, ...], bits: int, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.uniform(-2, 2, (num_clients, *shape)))
    w = torch.from_numpy(rng.integers(1, 50, num_clients).astype(np.float64))
    field = MaskedField(Plain(), Grid(num_clients, 2.0, 2.0**12, 50.0, ring=Ring(bits)))
    rows = field.encode(x, w if weighted else None, SeededNoise(0), everybody(num_clients), ())
    opened = field.decode(total(rows), x.shape[1:])
    wanted = torch.einsum("n,n...->...", w, x) if weighted else x.sum(0)
    assert opened.shape == wanted.shape
    assert (opened - wanted).abs().max() <= field.grid.error_bound(num_clients) + 1e-4


def test_coordinates_beyond_the_bound_are_clipped_and_never_wrap() -> None:
    field = MaskedField(Plain(), Grid(3, 2.0, 2.0**28))
    x = torch.tensor([[1e9], [-1e9], [5.0]])
    rows = field.encode(x, None, SeededNoise(0), everybody(3), ())
    assert field.decode(total(rows), torch.Size([1])).item() == 2.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    field = MaskedField(Plain(), Grid(3, 2.0, 4.0))
    with pytest.raises(RunFailed, match="NaN or infinity"):
        field.encode(torch.full((3, 1), value), None, SeededNoise(0), everybody(3), ())


def test_local_noise_is_added_before_the_masks() -> None:
    rule = LocalGaussian(clip_l2=1.0, noise_multiplier=2.0, per="message", adjacency="zero_out")
    field = MaskedField(rule, Grid(2, 40.0, 2.0**16))
    rows = field.encode(torch.zeros(2, 20_000), None, SystemNoise(), everybody(2), ("stream",))
    noise = field.grid.dequantise_total(rows)
    assert noise.std() == pytest.approx(2.0, rel=0.03)  # 6 standard errors of 40,000 draws
    assert np.abs(noise).max() < 12.0


@pytest.mark.parametrize("per", ["message", "row"])
def test_the_discrete_sum_has_the_planned_variance(per: str) -> None:
    """Four noises together: z * sensitivity, in steps of the grid; the rounding adds at most 1/4
    step^2 each, and the mean stays where it was."""
    rule = DistributedDiscrete(1.0, 0.5, per, scale=2.0**10, least_noises=4)
    field, repeats, dim = discrete_field(rule), 2000, 64
    x = torch.full((4, repeats, dim), 0.05) if per == "row" else torch.full((4, dim), 0.05)
    plan = rule.plan(x)
    assert plan.dim == dim
    wanted = rule.noise_multiplier * rule.noise_sensitivity(plan)
    if per == "row":
        sums = field.grid.ring.to_signed(total(encoded(field, x))).reshape(-1)
    else:
        draws = [total(encoded(field, x)) for _ in range(repeats)]
        sums = field.grid.ring.to_signed(np.stack(draws)).reshape(-1)
    # 128,000 draws: the standard error of the deviation is 0.2 %, that of the mean sigma / 358.
    assert sums.std() == pytest.approx(wanted, rel=0.012)
    assert sums.mean() == pytest.approx(4 * 0.05 * rule.scale, abs=6 * wanted / 358)


def encoded(field: MaskedField, x: Tensor) -> RingArray:
    return field.encode(x, None, SystemNoise(), everybody(len(x)), ("stream",))


def test_one_clients_noise_is_a_share_of_the_sums() -> None:
    plan = DISCRETE.plan_for(64)
    one = DISCRETE.local_stddev(plan)
    assert one == pytest.approx(DISCRETE.noise_multiplier * DISCRETE.noise_sensitivity(plan) / 2)
    rows = encoded(discrete_field(), torch.zeros(4, 64))
    assert np.abs(discrete_field().grid.ring.to_signed(rows)).max() < 8 * one


def test_uploads_are_clipped_before_discrete_noise() -> None:
    field = discrete_field()
    far = torch.full((4, 64), 1e6)
    sums = [field.decode(total(encoded(field, far)), torch.Size([64])) for _ in range(50)]
    # Each row clipped to norm 1 has coordinates 1/8: four of them make 1/2.
    assert torch.stack(sums).mean().item() == pytest.approx(0.5, abs=0.15)


def test_seeded_discrete_noise_does_not_depend_on_who_shares_a_host() -> None:
    field, x = discrete_field(), torch.randn(4, 64, generator=torch.Generator().manual_seed(0))

    def rows(low: int, high: int) -> RingArray:
        return field.encode(x[low:high], None, SeededNoise(3), Clients(((low, high),)), ("stream",))

    assert np.array_equal(rows(0, 4), np.concatenate([rows(0, 1), rows(1, 4)]))


def test_discrete_noise_never_leaves_without_masks() -> None:
    with pytest.raises(PrivacyError, match="protects only a masked sum"):
        DISCRETE.apply(torch.zeros(2, 3), SystemNoise(), everybody(2), ())


def test_a_grid_that_could_overflow_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match="the sum could overflow"):
        Grid(3, 16.0, 2.0**28)


def test_the_facts_say_how_far_a_sum_can_be_off() -> None:
    plain = MaskedField(Plain(), Grid(4, 2.0, 2.0**10)).facts()
    assert plain["largest_error_of_a_sum"] == 4 * 0.5 / 2**10
    assert discrete_field().facts()["largest_error_of_a_sum"] == 8 / 2**10


# ------------------------------------------------------------------------------- in the channel


class Told(Message, kind="test_masked.Told"):
    size: Tensor = private("sum", "a number", means=Other())


class AddOne:
    """A masker that can be seen through."""

    def mask(self, rows: RingArray, numbers: list[int], context: MaskContext) -> None:
        self.context = context
        rows += rows.dtype.type(1)


def policy() -> Policy:
    masked = {"Told.size": MaskedField(Plain(), Grid(3, 10.0, 1.0))}
    return Policy({"Told.size": Plain()}, 1e-5, "client", None, protects=True, masked=masked)


def test_the_channel_lets_a_masked_field_out_only_under_masks() -> None:
    masker, turn = AddOne(), Turn(5, 1, everybody(3))
    channel = Channel(policy(), SystemNoise(), Ledger(3), masker)
    sealed = channel.seal(Told(size=torch.tensor([1.0, 2.0, 3.0])), turn)
    assert codec.decode_fields(sealed.body)["size"].tolist() == [2, 3, 4]
    assert masker.context == MaskContext(5, Told.kind, "size", 1, 32)
    assert [(r.mechanism.rule, r.mechanism.masked) for r in sealed.releases] == [("masked", True)]


def test_without_a_session_a_masked_field_does_not_leave() -> None:
    channel = Channel(policy(), SystemNoise(), Ledger(3))
    with pytest.raises(PrivacyError, match="is to be masked, and no session is open"):
        channel.seal(Told(size=torch.ones(3)), Turn(1, 1, everybody(3)))
