"""Settings that follow from public sizes and the noise asked for: `plan` and every run ask here."""

from __future__ import annotations

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Outlook
from securefg.methods.registry import get_method
from securefg.runs.planning import num_training, plan
from securefg.runs.rare_classes import choose_for_rare_classes
from securefg.settings.config import RunConfig
from securefg.settings.methods import MethodSettings, WeightedSettings


def settle_config(config: RunConfig, info: PublicInfo) -> RunConfig:
    """Return the config with every open setting chosen by its rule. Its hash and its file stay as
    they are."""
    method = get_method(config.method.name)
    config = choose_for_rare_classes(_with_weighting(config, info), method, None)
    choose = method.choose
    if choose is None:
        return config

    def signal_over_noise(settings: MethodSettings) -> tuple[float | None, ...]:
        tried = config.model_copy(update={"method": settings})
        return tuple(release.ratio for release in plan(tried, info).releases)

    outlook = Outlook(_known_training(config, info), signal_over_noise)
    return config.model_copy(update={"method": choose(config.method, outlook)})


def _known_training(config: RunConfig, info: PublicInfo) -> int | None:
    try:
        return num_training(config, info)
    except ConfigError:
        return None


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
