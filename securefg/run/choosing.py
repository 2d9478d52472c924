"""Settings that follow from public sizes and the noise asked for: `plan` and every run ask here.

d0, by which `two_sums` divides neighbours' sums, trades noise for detail: the larger it is, the
less one node moves. It is k/8 where that leaves the second sum clear of its noise, else k/3, and at
least 1. Which nodes were looked at for this rule is told in docs/private.md.
"""

from __future__ import annotations

from typing import Final

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError
from securefg.methods.registry import get_method
from securefg.models.discriminant import CLEAR
from securefg.run.planning import num_training, plan
from securefg.settings.config import RunConfig
from securefg.settings.methods.base import WeightedSettings
from securefg.settings.methods.two_sums import Divisor, FeatureSettings

FINE: Final = 8.0
COARSE: Final = 3.0
"""Links over d0: where sums are clear of their noise, and where they are not."""


def settled(config: RunConfig, info: PublicInfo) -> RunConfig:
    """The config with all that is left to a rule chosen; its hash and its file stay as they are."""
    config = _with_weighting(config, info)
    method = config.method
    if not isinstance(method, FeatureSettings) or not method.graph or method.scale is not None:
        return config
    return config.model_copy(update={"method": method.with_divisor(divisor(config, info))})


def _with_weighting(config: RunConfig, info: PublicInfo) -> RunConfig:
    """Count clients alike where rows of nodes would be summed under masks, times clients' sizes."""
    settings = config.method
    if config.privacy.secure_aggregation is None or not isinstance(settings, WeightedSettings):
        return config
    planned = get_method(settings.name).releases(settings, config.training, info)
    names = {release.name for release in planned}
    if not any(release.weighted_rows_by(names) for release in planned):
        return config
    why = "a masked sum of rows times the clients' sizes would show who holds a node"
    return config.model_copy(update={"method": settings.counting_alike(why)})


def divisor(config: RunConfig, info: PublicInfo) -> Divisor:
    """d0 for these sizes, this number of links and this noise."""
    method = config.method
    assert isinstance(method, FeatureSettings)
    fine, coarse = (max(1.0, method.links / share) for share in (FINE, COARSE))
    try:
        num_training(config, info)
    except ConfigError:
        return Divisor(coarse, "links / 3, since the config does not say how many nodes train")
    tried = method.model_copy(update={"scale": fine})
    releases = plan(config.model_copy(update={"method": tried}), info).releases
    ratio = releases[-1].ratio if releases else None
    if ratio is None:
        return Divisor(fine, "links / 8, since no noise is added")
    stands = f"the second sum would stand {ratio:.1f} times above its noise"
    if ratio >= CLEAR:
        return Divisor(fine, f"links / 8, with which {stands}, {CLEAR:g} or more")
    return Divisor(coarse, f"links / 3, since with links / 8 {stands}, less than {CLEAR:g}")
