"""The method that public sizes recommend for a run's noise, or that there is nothing to gain.

Every private method tells by a rule of its own whether it suits (`Method.suits`). The rules and the
limit below were made on Johns Hopkins and Amherst (benchmarks/private_few_labels.py). Nothing
private is read, and no score is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import SecurefgError
from securefg.methods.base import Scene, Suit
from securefg.methods.registry import get_method
from securefg.runs.choosing import settle_config
from securefg.runs.planning import num_training, plan
from securefg.settings.config import RunConfig
from securefg.settings.methods import SHIPPED, method_settings

ENOUGH: Final = 300
"""From so many training nodes per client on, private models gained a point at most over training
alone."""

PERSONAL: Final = ("node", "features")
"""The units that methods recommend themselves for."""


@dataclass(frozen=True)
class Recommendation:
    """A method that suits, or None if nothing is to be gained, and why."""

    method: str | None
    why: str


def recommend_settings(
    config: RunConfig, info: PublicInfo, training: int | None = None
) -> Recommendation | None:
    """Return what the sizes recommend under this config's noise. Return None if the config asks for
    no epsilon, or for one that covers no person."""
    if config.privacy.target_epsilon is None or config.privacy.unit not in PERSONAL:
        return None
    training = num_training(config, info) if training is None else training
    shown = get_method(config.method.name).answers_shown(config.method)
    per_client = round(training / info.num_clients)
    if per_client >= ENOUGH and not shown:
        return Recommendation(
            None,
            f"every client has about {per_client:,} training nodes of its own. From {ENOUGH} on, "
            "private models gained a point or nothing over training alone where this was measured",
        )
    suits = {name: _suit_of(name, config, info, training, shown) for name in SHIPPED}
    suitable_methods = {name: suit for name, suit in suits.items() if suit is not None}
    if not suitable_methods:
        return Recommendation(
            None, "no method leaves a model above this noise. Train alone, or take a larger epsilon"
        )
    best = max(suitable_methods, key=lambda name: suitable_methods[name].rank)
    return Recommendation(best, suitable_methods[best].why)


def _suit_of(
    name: str, config: RunConfig, info: PublicInfo, training: int, shown: bool
) -> Suit | None:
    """Ask a method with its default settings, and the config's number of links if it has one."""
    method = get_method(name)
    if method.suits is None:
        return None
    links = getattr(config.method, "links", None)
    fields = method_settings(name).model_fields
    known = "links" in fields and links is not None
    if getattr(config.method, "link_columns", 0) and "link_columns" not in fields:
        return None  # its epsilon would not cover features that are summed over links
    settings = config.method
    if name != config.method.name:
        settings = method_settings(name).model_validate({"links": links} if known else {})
    rounds = config.training.rounds if name == config.method.name else 1
    tried = config.model_copy(
        update={
            "method": settings,
            "training": config.training.model_copy(update={"rounds": rounds}),
        }
    )
    try:
        releases = plan(settle_config(tried, info), info, training).releases
    except SecurefgError:
        return None
    ratios = tuple(release.ratio for release in releases if release.ratio is not None)
    scene = Scene(info.num_nodes, info.num_clients, training, config.privacy.unit, shown, ratios)
    return method.suits(scene)
