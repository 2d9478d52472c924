"""Exact sums are refused where two of them would differ by single clients."""

from __future__ import annotations

import pytest
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.privacy.policy import make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.privacy.sums import with_census
from securefg.protocol.meanings import Size, Weights
from securefg.protocol.messages import Message, private
from securefg.settings.privacy import PrivacySettings


class First(Message, kind="test_exact_sums.First"):
    """A weighted model."""

    weights: Tensor = private("sum", "model", means=Weights("network"), weight="size")
    size: Tensor | None = private("sum", "number of nodes", means=Size())


class Second(Message, kind="test_exact_sums.Second"):
    """Another one, weighted alike."""

    weights: Tensor = private("sum", "model", means=Weights("network"), weight="size")
    size: Tensor | None = private("sum", "number of nodes", means=Size())


def planned(*replies: type[Message]) -> list[PlannedRelease]:
    """Both fields of these replies, in three rounds."""
    sizes = [PlannedRelease(reply, "size", 3, bound=100) for reply in replies]
    return with_census([*sizes, *(PlannedRelease(reply, "weights", 3, 10) for reply in replies)])


def test_constant_in_two_replies_under_masks_without_noise_is_refused() -> None:
    masks = PrivacySettings.model_validate({"secure_aggregation": {}})
    assert make_policy(masks, planned(First), 5).exact.constants(First) == ("size",)
    with pytest.raises(ConfigError, match=r"Second\.size: found a constant that .*First has too"):
        make_policy(masks, planned(First, Second), 5)


def test_constant_in_two_replies_without_masks_is_accepted() -> None:
    assert not make_policy(PrivacySettings(), planned(First, Second), 5).bare
