"""Messages that once could be declared, and values that could be sealed, though they must not."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from securefg.federation.channel import Channel
from securefg.foundation.errors import ProtocolError
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.ledger import Ledger
from securefg.privacy.masking_plan import MaskedField
from securefg.privacy.noise import SeededNoise
from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, personal, private, public
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import RingArray

TWO = Turn(round=1, step=1, clients=Clients(((0, 2),)))


class Tell(Message, kind="test_message_regressions.Tell"):
    x: Tensor = private("sum", "x", means=Other())


class Addressed(Message, kind="test_message_regressions.Addressed"):
    own: Tensor | None = personal("a row for each client", means=Other())


def channel(ledger: Ledger) -> Channel:
    rules = {"Tell.x": LocalGaussian(clip_l2=1.0, noise_multiplier=1.0, per="message")}
    return Channel(Policy(rules, 1e-5, "client", None, protects=True), SeededNoise(0), ledger)


# ------------------------------------------------------------------------------- declared fields


def test_a_message_cannot_be_derived_from_another() -> None:
    """It would have lost the fields of its base without a word."""
    with pytest.raises(ProtocolError, match="cannot be derived from another"):

        class More(Tell):
            z: Tensor = public("z")


@pytest.mark.parametrize("name", ["values", "kind", "declarations", "optional", "types"])
def test_a_name_that_every_message_uses_cannot_name_a_field(name: str) -> None:
    body = {"__annotations__": {name: Tensor}, name: public("x"), "__module__": __name__}
    with pytest.raises(ProtocolError, match=f"{name} cannot name a field"):
        type("Bad", (Message,), body)


# ---------------------------------------------------------------------------------- sealed values


@pytest.mark.parametrize("own", [torch.ones(2, 1), None], ids=["rows", "none"])
def test_a_personal_field_in_a_reply_is_refused(own: Tensor | None) -> None:
    with pytest.raises(ProtocolError, match=r"Addressed\.own is personal"):
        channel(Ledger(2)).seal(Addressed(own=own), TWO)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_channel_value_not_finite_leaves_as_zero_under_noise(bad: float) -> None:
    """No clipping bounds it, and an error before the noise would tell that it is there."""
    ledger = Ledger(2)
    tried, zero = (
        channel(ledger).seal(Tell(x=torch.tensor([[0.5, value], [1.0, 1.0]])), TWO).fields["x"]
        for value in (bad, 0.0)
    )
    assert isinstance(tried, Tensor)
    assert isinstance(zero, Tensor)
    assert torch.equal(tried, zero)
    assert len(ledger.mechanisms) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_channel_value_not_finite_leaves_and_is_booked_without_noise(bad: float) -> None:
    """Its reader sees all of it: the federation ends the run."""
    ledger, values = Ledger(2), torch.tensor([[1.0, bad], [1.0, 1.0]])
    policy = Policy({"Tell.x": Plain()}, 1e-5, "client", None, protects=True)
    sealed = Channel(policy, SeededNoise(0), ledger).seal(Tell(x=values), TWO).fields["x"]
    assert sealed is values
    assert len(ledger.mechanisms) == 1


@pytest.mark.parametrize("per", ["message", "row"])
def test_seeded_discrete_noise_does_not_depend_on_who_shares_a_host(
    per: Literal["message", "row"],
) -> None:
    rule = DistributedDiscrete(1.0, 1.0, per, scale=64.0, least_noises=1)
    sigma = rule.local_stddev(rule.plan(torch.ones(1, 2, 3)))
    field = MaskedField(rule, Grid(3, 1.1, 64.0, noise_sigma=sigma, dim=6))
    values, noise = torch.linspace(-1, 1, 18).reshape(3, 2, 3), SeededNoise(1)

    def encoded(low: int, high: int) -> RingArray:
        clients = Clients(((low, high),))
        return field.encode(values[low:high], None, noise, clients, ("m", "x", 1, 1))

    together = encoded(0, 3)
    assert np.array_equal(together, np.concatenate([encoded(0, 1), encoded(1, 3)]))
    assert np.array_equal(together, np.concatenate([encoded(0, 2), encoded(2, 3)]))
