"""Which fields are masked, and on which grid: planned before the run, so that no sum overflows.

`MaskedField` takes a private sum to the integer ring, with or without noise, and back. By default a
value is clipped and noised as its defence says, weighted, quantised and masked. A defence that
needs masks has its own way to the ring: one client's noise does not suffice then, the sum over the
least number of honest survivors carries what was planned, and no smaller cohort is ever unmasked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.errors import ConfigError, MaskingRefused, RoundAborted
from securefg.privacy.defence import Defence, Stream, SumPlan, local_defences
from securefg.privacy.influence import Influence
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring, RingArray
from securefg.settings.secagg import SecureAggregationSettings


@dataclass(frozen=True)
class MaskedField:
    """A field's way to the ring: its rule, and a grid that its sum cannot overflow.

    recipients  into how many parts it falls, each opened by one client; 0: the server opens it
    """

    rule: Defence
    grid: Grid
    recipients: int = 0

    def encode(
        self,
        values: Tensor,
        weights: Tensor | None,
        noise: NoiseSource,
        clients: Clients,
        stream: Stream,
    ) -> RingArray:
        """Return a row of ring elements per client, ready to be masked."""
        return self.rule.to_ring(values, weights, noise, clients, stream, self.grid)

    def require_bound(self, total: RingArray, num_clients: int, name: str) -> None:
        """Raise RoundAborted if a sum passes the bounds of so many honest uploads. Nobody can tell
        whose upload broke it."""
        grid = replace(self.grid, num_clients=num_clients)
        largest = int(np.abs(self.grid.ring.to_signed(total)).max(initial=0))
        if largest > grid.worst_case:
            raise RoundAborted(
                f"secure aggregation: a sum of {name} over {num_clients} clients passes what all "
                "of them could send; one or more sent numbers outside the bound, and the sum is "
                "not used"
            )

    def decode(self, total: RingArray, shape: torch.Size) -> Tensor:
        """Return the opened sum as a float tensor of this shape."""
        return torch.from_numpy(self.grid.dequantise_total(total).astype(np.float32)).reshape(shape)

    def facts(self) -> dict[str, Any]:
        """Return for the summary the grid, and how far it can move a sum."""
        return {
            "opened_by": "recipients" if self.recipients else "server",
            "ring_bits": self.grid.ring.bits,
            "scale": self.grid.scale,
            "value_bound": self.grid.clip,
            "largest_error_of_a_sum": self.grid.error_bound(
                self.grid.num_clients, stochastic=self.rule.rounds_at_random
            ),
        }


if TYPE_CHECKING:
    from securefg.privacy.releases import PlannedRelease


def masked_fields(
    settings: SecureAggregationSettings | None,
    planned: Sequence[PlannedRelease],
    rules: Mapping[str, Defence],
    num_clients: int,
) -> dict[str, MaskedField]:
    """Return every field that is to be masked, with its grid. Raise if masking cannot serve a
    field."""
    if settings is None:
        for release in planned:
            _refuse_unmasked(release, "")
        return {}
    by_name = {release.name: release for release in planned}
    wanted = settings.masked_fields
    if wanted is None:
        wanted = tuple(n for n, release in by_name.items() if release.declaration.scope != "each")
    if not wanted:
        raise MaskingRefused(_nothing_to_mask(settings, planned))
    for name in wanted:
        if name not in by_name:
            raise ConfigError(
                f"privacy.secure_aggregation.masked_fields: no private field {name!r}; "
                f"this run sends {', '.join(by_name)}"
            )
        refuse_unless_sum(by_name[name])
        _refuse_recipients(settings, by_name[name])
        _refuse_steered(settings, by_name[name], rules[name])
    for name in by_name.keys() - set(wanted):
        _refuse_unmasked(by_name[name], ".fields")
    for release in planned:
        _refuse_weighted_rows(release, by_name)
    return {
        name: _mask_field(settings, by_name[name], by_name, rules[name], num_clients)
        for name in wanted
    }


def _nothing_to_mask(settings: SecureAggregationSettings, planned: Sequence[PlannedRelease]) -> str:
    if settings.masked_fields is not None:
        return (
            "privacy.secure_aggregation.masked_fields: found an empty list; expected names "
            "of fields; "
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
    """Raise MaskingRefused if the server needs each value of a field. Masking leaves only a sum."""
    if release.declaration.scope == "each":
        raise MaskingRefused(
            f"privacy.secure_aggregation.masked_fields: found {release.name}, of which the "
            "server needs "
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


def covers_steering(node: Influence, rule: Defence) -> bool:
    """Return whether noise covers an upload whatever the server sent to its client.

    The method must prove how far a node moves its message, for any request, and the rule must add
    noise that is sized for this distance. A server that steers all other uploads to known values
    then reads one upload with the claimed noise.
    """
    return node.moved is not None and not rule.is_bare


def _refuse_steered(
    settings: SecureAggregationSettings, release: PlannedRelease, rule: Defence
) -> None:
    """Refuse a sum that a lying server can steer to one client's upload."""
    if settings.malicious and release.steered and not covers_steering(release.node, rule):
        raise MaskingRefused(
            f"privacy.secure_aggregation.malicious: {release.name} depends on rows that the server "
            "makes for single clients, or told them before, and that the others cannot check: one "
            "that lies steers all uploads in a sum but one to what it knows; allowed: malicious: "
            "false, which trusts the server to follow the protocol"
        )


def _refuse_recipients(settings: SecureAggregationSettings, release: PlannedRelease) -> None:
    """Refuse sums for recipients in a form that opens sums for the server alone."""
    if settings.form == "committee" and release.declaration.scope == "recipients":
        raise MaskingRefused(
            f"privacy.secure_aggregation.form: found committee; expected session for "
            f"{release.name}, whose sums are opened by their recipients"
        )


def _refuse_unmasked(release: PlannedRelease, where: str) -> None:
    """Raise ConfigError for a field without masks that is for recipients alone."""
    if release.declaration.scope == "recipients":
        raise ConfigError(
            f"privacy.secure_aggregation{where}: {release.name} is for its recipients alone and "
            "must be masked; secure_aggregation: {} masks it"
        )


def _mask_field(
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
        # No number of a message passes the message's own length.
        bound=release.bound or release.norm or settings.value_bound,
        ring=Ring(settings.ring_bits),
        num_clients=num_clients,
        weighted_by=weight.name if weight is not None else None,
        heaviest=weight.bound if weight is not None else None,
        scale=settings.scale,
    )
    settled, grid = rule.on_grid(plan)
    recipients = num_clients if release.declaration.scope == "recipients" else 0
    return MaskedField(settled, grid, recipients)
