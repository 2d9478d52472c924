"""The holders whose rows are in the masked sums of a run, by subset sums of client constants.

A sum by row in which each client adds a constant at the rows that it holds shows, by its value, who
holds the row (`securefg.secagg.exposure`). Declarations do not tell that a field is of this form,
so its opened values are compared with who holds what.

Probabilities have a bound besides: without the last class, a holder's add up to at most 1. If a
node's sum passes the count of its holders less one, all holders were there, and nobody who was away
is one. If models are sure of themselves and clients drop out, the others' names follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.protocol.meanings import Holdings, Predictions
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.opened import Opened, is_census
from securefg.secagg.exposure import (
    FINEST,
    Bits,
    Floats,
    Membership,
    fitted_constants,
    subset_exposure,
)

MOST_CLIENTS: Final = 512
"""Of more clients no constants are fitted."""


@dataclass(frozen=True, eq=False)
class _Column:
    """An opened column of the form: constant of the client times a bit.

    has_row  the rows that were let into the sum
    """

    constants: Floats
    sums: Floats
    has_row: Bits
    tolerance: float


@dataclass(frozen=True, eq=False)
class _Total:
    """A sum of the probabilities of each row over the clients that were there."""

    present: Bits
    sums: Floats
    error: float


class HolderSums:
    """A reader of opened sums that keeps those from which a row's holders may follow."""

    def __init__(self, experiment: Setup) -> None:
        self._x = experiment
        self._columns: dict[tuple[bytes, bytes], _Column] = {}
        self._read: set[str] = set()
        self._holds: Bits | None = None
        self._census: Floats | None = None
        self._totals: list[_Total] = []

    def read(self, opened_record: Opened, arrays: Mapping[str, Tensor]) -> None:
        """Look at the values of an opened sum."""
        self._read.add(opened_record.kind)
        if self._is_solvable:
            for name, array in self._by_row(opened_record.kind, arrays):
                self._fit_holders(opened_record, name, array)
                self._keep_bound(opened_record, name, array)

    def num_exposed(self, opened: Sequence[Opened]) -> int | None:
        """Return the number of rows of which at least one holder follows, or None if not solved."""
        unread = {one.kind for one in opened if self._sums_rows(one.kind)} - self._read
        if unread or not self._is_solvable:
            return None
        try:
            named: dict[int, Bits] = {}
            for rows, found in self._solve_memberships():
                here = named.setdefault(len(rows), np.zeros(len(rows), np.bool_))
                here[rows] |= found.holders.any(1)
        except ConfigError:
            return None
        by_bound = self._named_by_bounds()
        if by_bound is not None:
            named[len(by_bound)] = by_bound | named.get(len(by_bound), False)
        return int(sum(here.sum() for here in named.values()))

    @property
    def _is_solvable(self) -> bool:
        """Return whether it is known here who holds what, and the clients are not too many to
        fit."""
        return with_truth(self._x) is not None and self._x.public.num_clients <= MOST_CLIENTS

    def _sums_rows(self, kind: str) -> bool:
        message = self._x.method.message(kind)
        return any(message.declarations[name].rows for name in self._x.policy.masks(message))

    def _by_row(self, kind: str, arrays: Mapping[str, Tensor]) -> Iterator[tuple[str, Floats]]:
        """Yield the masked fields that have a row per node, and each row's total beside them."""
        message = self._x.method.message(kind)
        for name in self._x.policy.masks(message):
            array = arrays.get(name)
            if array is None or array.dim() == 0:
                continue
            if message.declarations[name].rows or len(array) == self._x.public.num_nodes:
                columns = array.double().reshape(len(array), -1).numpy()
                total = columns.sum(1, keepdims=True)
                yield name, np.hstack([columns, total]) if columns.shape[1] > 1 else columns

    def _fit_holders(self, opened_record: Opened, name: str, sums: Floats) -> None:
        message = self._x.method.message(opened_record.kind)
        held = self._held_rows(len(sums))
        # Where no record tells which rows were let in, those with a sum were.
        has_row: Bits = np.any(sums, axis=1)
        if is_census(message):
            has_row = np.ones(len(sums), np.bool_)
        elif opened_record.asked.released is not None and len(opened_record.asked.released) == len(
            sums
        ):
            has_row = opened_record.asked.released.numpy()
        present = np.isin(np.arange(held.shape[1]), list(opened_record.clients))
        members = held & present & has_row[:, None]
        masked = self._x.policy.mask(message, name)
        assert masked is not None
        error = masked.grid.error_bound(len(opened_record.clients))
        constants, tolerance, is_fitting = fitted_constants(sums, members, error)
        for column in np.flatnonzero(is_fitting).tolist():
            own = np.where(present, constants[:, column], 0.0)
            found = _Column(own, sums[:, column], has_row, float(tolerance[column]))
            key = np.round(own / (4 * found.tolerance)).tobytes(), has_row.tobytes()
            self._columns.setdefault(key, found)

    def _keep_bound(self, opened_record: Opened, name: str, sums: Floats) -> None:
        """Keep the census of holders, and what probabilities add up to. `sums` ends with the
        total of its columns."""
        message = self._x.method.message(opened_record.kind)
        meaning = message.declarations[name].meaning(self._x.config.method)
        if is_census(message) and isinstance(meaning, Holdings):
            self._census = sums[:, -1].round()
        elif isinstance(meaning, Predictions):
            masked = self._x.policy.mask(message, name)
            assert masked is not None
            present = np.isin(np.arange(self._x.public.num_clients), list(opened_record.clients))
            error = sums.shape[1] * masked.grid.error_bound(len(opened_record.clients))
            total = _Total(present, sums[:, -1], error + FINEST * len(opened_record.clients))
            self._totals.append(total)

    def _named_by_bounds(self) -> Bits | None:
        """Return rows whose holders are all that are left when those who hold it not are known."""
        if self._census is None:
            return None
        others = np.zeros((len(self._census), self._x.public.num_clients), np.bool_)
        for total in self._totals:
            if len(total.sums) == len(others):
                is_complete = total.sums > self._census - 1 + total.error
                others |= is_complete[:, None] & ~total.present
        named: Bits = (self._census > 0) & (others.sum(1) == others.shape[1] - self._census)
        return named

    def _held_rows(self, num_rows: int) -> Bits:
        if self._holds is None or len(self._holds) != num_rows:
            self._holds = np.zeros((num_rows, self._x.public.num_clients), np.bool_)
            experiment = with_truth(self._x)
            for shard in experiment.shards if experiment else ():
                rows = self._x.method.rows_of(self._x.config.method, shard)
                self._holds[rows[rows < num_rows].numpy(), shard.client] = True
        return self._holds

    def _solve_memberships(self) -> Iterator[tuple[Bits, Membership]]:
        """Solve all columns together, for rows that are in the same ones. Yields these rows."""
        by_length: dict[int, list[_Column]] = {}
        for column in self._columns.values():
            by_length.setdefault(len(column.sums), []).append(column)
        for columns in by_length.values():
            has_row = np.stack([column.has_row for column in columns], axis=1)
            sums = np.stack([column.sums for column in columns], axis=1)
            constants = np.stack([column.constants for column in columns], axis=1)
            tolerance = np.array([column.tolerance for column in columns])
            for pattern in np.unique(has_row, axis=0):
                rows = (has_row == pattern).all(1)
                if pattern.any():
                    found = sums[rows][:, pattern]
                    constant = constants[:, pattern]
                    yield rows, subset_exposure(constant, found, tolerance[pattern])
