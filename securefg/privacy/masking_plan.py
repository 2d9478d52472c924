"""Which fields are masked, and on which grid: planned before the run, so that no sum overflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.privacy.defence import Defence, SumPlan, local_defences
from securefg.privacy.masked import MaskedField
from securefg.secagg.ring import Ring
from securefg.settings.secagg import SecureAggregationSettings

if TYPE_CHECKING:
    from securefg.privacy.releases import PlannedRelease


def masked_fields(
    settings: SecureAggregationSettings | None,
    planned: Sequence[PlannedRelease],
    rules: Mapping[str, Defence],
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
    return f"protect it with noise (privacy.mechanism: {' or '.join(local_defences(noisy=True))})"


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
    rule: Defence,
    num_clients: int,
) -> MaskedField:
    if rule.is_bare and release.not_bare:
        raise ConfigError(release.not_bare)
    weight = by_name.get(f"{release.message.__name__}.{release.declaration.weight}")
    plan = SumPlan(
        field=release.name,
        dim=release.dim,
        num_rows=release.num_rows,
        bound=release.bound or settings.value_bound,
        ring=Ring(settings.ring_bits),
        num_clients=num_clients,
        weighted_by=weight.name if weight is not None else None,
        heaviest=weight.bound if weight is not None else None,
        scale=settings.scale,
    )
    settled, grid = rule.on_grid(plan)
    recipients = num_clients if release.declaration.scope == "recipients" else 0
    return MaskedField(settled, grid, recipients)
