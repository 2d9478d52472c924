"""Which fields are masked, and on which grid: planned before the run, so that no sum overflows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.privacy.discrete_gaussian import LARGEST_SIGMA
from securefg.privacy.masked import MaskedField
from securefg.privacy.rules import DistributedDiscrete, LocalGaussian, Plain, Rule
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring
from securefg.settings.secagg import SecureAggregationSettings

if TYPE_CHECKING:
    from securefg.privacy.releases import PlannedRelease
LEAST_SIGMA: Final = 3.0
"""Below this many steps of the grid, sums of discrete Gaussians are no discrete Gaussians."""

HEADROOM_BITS: Final = 2
"""Numbers all over the ring pass for a sum within the bound with a probability of 1/4 each."""

COMFORTABLE_SIGMA: Final = 2.0**14
"""A finer grid gains nothing: rounding is part of the bound, and tables grow with sigma."""


def masked_fields(
    settings: SecureAggregationSettings | None,
    planned: Sequence[PlannedRelease],
    rules: Mapping[str, Rule],
    num_clients: int,
) -> dict[str, MaskedField]:
    """Every field that is to be masked, with its grid. Refuses what masking cannot serve."""
    if settings is None:
        for release in planned:
            _refuse_unmasked(release, "")
        return {}
    by_name = {release.name: release for release in planned}
    wanted = settings.fields
    if wanted is None:
        wanted = tuple(n for n, release in by_name.items() if release.declaration.scope != "each")
    if not wanted:
        raise MaskingRefused(_nothing_to_mask(settings, planned))
    for name in wanted:
        if name not in by_name:
            raise ConfigError(
                f"privacy.secure_aggregation.fields: no private field {name!r}; "
                f"this run sends {', '.join(by_name)}"
            )
        refuse_unless_sum(by_name[name])
        _refuse_steered(settings, by_name[name])
    for name in by_name.keys() - set(wanted):
        _refuse_unmasked(by_name[name], ".fields")
    for release in planned:
        _refuse_weighted_rows(release, by_name)
    return {
        name: _masked(settings, by_name[name], by_name, rules[name], num_clients) for name in wanted
    }


def _nothing_to_mask(settings: SecureAggregationSettings, planned: Sequence[PlannedRelease]) -> str:
    if settings.fields is not None:
        return (
            "privacy.secure_aggregation.fields: found an empty list; expected names of fields; "
            "leave it out to mask every sum"
        )
    if not planned:
        return (
            "privacy.secure_aggregation: found a run that sends no private field; expected one "
            "that uploads sums; leave secure_aggregation out"
        )
    return (
        f"privacy.secure_aggregation: found {', '.join(r.name for r in planned)}, of which the "
        "server needs every single value; expected a field of which it needs only the sum; "
        f"{instead_of_masks(planned[0])}"
    )


def instead_of_masks(release: PlannedRelease) -> str:
    """Return advice for a field that cannot be masked: the settings that sum it, or noise."""
    if release.declaration.summed_by:
        return f"set {release.declaration.summed_by}, which sends sums that masks can hide"
    return "protect it with noise (privacy.mechanism: local_gaussian)"


def refuse_unless_sum(release: PlannedRelease) -> None:
    """Masking leaves the server nothing but a sum; a field of which it needs each value is lost."""
    if release.declaration.scope == "each":
        raise MaskingRefused(
            f"privacy.secure_aggregation.fields: found {release.name}, of which the server needs "
            "every single value; expected a field of which it needs only the sum; "
            f"{instead_of_masks(release)}"
        )


def _refuse_weighted_rows(release: PlannedRelease, by_name: Mapping[str, PlannedRelease]) -> None:
    """Refuse a sum by row in which each client's rows are multiplied by a constant of the client.

    The constants are integers, or integers again after rounding. Their subset sums show which
    clients are in a row's sum.
    """
    weight = release.weighted_rows_by(by_name)
    if weight is not None:
        raise ConfigError(
            "method.weighting: found nodes; expected clients under masks. Rows of "
            f"{release.name} times the private {weight} would add up, at each "
            f"{release.declaration.rows}, to a subset sum that shows its holders. Set "
            "method.weighting=clients"
        )


def _refuse_steered(settings: SecureAggregationSettings, release: PlannedRelease) -> None:
    if settings.malicious and release.steered:
        raise MaskingRefused(
            f"privacy.secure_aggregation.malicious: {release.name} depends on rows that the server "
            "makes for single clients, or told them before, and that the others cannot check: one "
            "that lies steers all uploads in a sum but one to what it knows; allowed: malicious: "
            "false, which trusts the server to follow the protocol"
        )


def _refuse_unmasked(release: PlannedRelease, where: str) -> None:
    """What is for recipients alone never leaves bare."""
    if release.declaration.scope == "recipients":
        raise ConfigError(
            f"privacy.secure_aggregation{where}: {release.name} is for its recipients alone and "
            "must be masked; secure_aggregation: {} masks it"
        )


def _masked(
    settings: SecureAggregationSettings,
    release: PlannedRelease,
    by_name: Mapping[str, PlannedRelease],
    rule: Rule,
    num_clients: int,
) -> MaskedField:
    ring = Ring(settings.ring_bits)
    recipients = num_clients if release.declaration.scope == "recipients" else 0
    weight = by_name.get(f"{release.message.__name__}.{release.declaration.weight}")
    if isinstance(rule, DistributedDiscrete):
        if weight is not None:
            raise ConfigError(
                f"{release.name}: distributed noise cannot be planned for a sum weighted by the "
                f"private {weight.name}; let clients count alike (method.weighting: clients)"
            )
        return replace(_discrete(rule, release, ring, num_clients), recipients=recipients)
    if isinstance(rule, Plain) and release.not_bare:
        raise ConfigError(release.not_bare)
    bound = release.bound or settings.value_bound
    if isinstance(rule, LocalGaussian) and weight is not None:
        raise ConfigError(
            f"{release.name}: noise under masks cannot be weighted by the private {weight.name}; "
            "let clients count alike (method.weighting: clients)"
        )
    if isinstance(rule, LocalGaussian):
        bound = rule.clip_l2 + 8 * rule.stddev
    heaviest = weight.bound if weight is not None else None
    largest = bound if heaviest is None else heaviest * max(bound, 1.0)
    scale = settings.scale or _finest(ring, num_clients * largest)
    grid = Grid(num_clients, bound, scale, heaviest, dim=release.dim, ring=ring)
    return MaskedField(rule, grid, recipients)


def _finest(ring: Ring, largest_sum: float) -> float:
    """A power of two by which a sum can be scaled and stay in a quarter of the ring, so that one
    that holds more than honest uploads is seen."""
    return 2.0 ** (math.floor(math.log2(ring.largest / largest_sum) - 1e-9) - HEADROOM_BITS)


def _discrete(
    rule: DistributedDiscrete, release: PlannedRelease, ring: Ring, num_clients: int
) -> MaskedField:
    """The finest grid that fits the ring and keeps the tables of the sampler small."""
    dim = release.unit_dim(rule.per)
    size = rule.clip_l2 if rule.moved_l2 is None else min(rule.moved_l2, rule.clip_l2) / 16
    scale = 2.0 ** math.ceil(math.log2(COMFORTABLE_SIGMA / size))
    while scale * size >= 1:
        tried = replace(rule, scale=scale)
        sigma = tried.local_stddev(tried.plan_for(dim))
        # Where rounding would begin to count in the sensitivity, larger tables are the lesser evil.
        fine = scale * size >= 4 * math.sqrt(dim)
        if LEAST_SIGMA <= sigma <= (COMFORTABLE_SIGMA if fine else LARGEST_SIGMA):
            try:
                return MaskedField(tried, _noisy_grid(tried, release, ring, num_clients, sigma))
            except ConfigError:
                pass  # it could overflow: try a coarser grid
        scale /= 2
    raise ConfigError(
        f"{release.name}: no grid of the {ring.bits}-bit ring holds the sum of {num_clients} "
        f"clients with a noise multiplier of {rule.noise_multiplier:.4g}; change the noise, take "
        "ring_bits: 64, or let target_epsilon speak of a smaller unit"
    )


def _noisy_grid(
    rule: DistributedDiscrete, release: PlannedRelease, ring: Ring, num_clients: int, sigma: float
) -> Grid:
    bound = rule.clip_l2 + 1 / rule.scale
    return Grid(num_clients, bound, rule.scale, noise_sigma=sigma, dim=release.dim, ring=ring)
