"""The gate: a site's clip, noise, floor, budget and books for updates of jobs that are not ours.

One update is everything that one task's result holds: a named set of arrays, taken together as one
message of one client. Protects the site's whole update against everybody who sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.privacy.defence import Asked, NoisyUpload, find_defence
from securefg.privacy.ledger import Release
from securefg.privacy.noise import SystemNoise
from securefg.protocol.codec import Clients
from securefg.settings.privacy import GATE_DEFENCE, Adjacency
from securefg.site.books import Booked, SiteBooks, open_books
from securefg.site.policy import (
    POLICY_FILE,
    JobRefused,
    SitePolicy,
    load_policy,
    write_policy,
)

Array = NDArray[np.generic] | Tensor
Arrays = Mapping[str, Array]

METHOD: Final = "nvflare"
"""The name by which a floor's `methods` allows jobs that pass the gate, where no other is given."""
_ONE: Final = Clients.of([0])
TAILS: Final = 40
"""No draw of Gaussian noise lies so many standard deviations away."""


class Update(NamedTuple):
    """A trainer's arrays, and whether they are a difference from the model that came."""

    arrays: Arrays
    is_change: bool


class UpdateRefused(PrivacyError):
    """An error: an update may not leave, for a reason that may tell of the data. It is booked."""


@dataclass(frozen=True)
class Gate:
    """What a site does to every update: y = base + clip(x - base, C) + N(0, (z S)^2).

    base    the model that the server sent, which it knows: it moves no neighbour
    method  the framework whose jobs pass, as the floor and the books name it
    """

    home: Path
    rule: NoisyUpload
    method: str = METHOD

    @property
    def field(self) -> str:
        """Return the name of an update in the books."""
        return update_field(self.method)

    @classmethod
    def of(
        cls,
        home: Path,
        clip_l2: float,
        noise_multiplier: float,
        adjacency: Adjacency,
        method: str = METHOD,
    ) -> Gate:
        """Return a gate that noises the whole update. Raise where the settings protect nothing."""
        for name, value in (("clip_l2", clip_l2), ("noise_multiplier", noise_multiplier)):
            if type(value) not in (int, float) or not 0 < value < float("inf"):
                raise ConfigError(f"{name}: wanted a positive number, found {value!r}")
        if adjacency not in ("replace_one", "zero_out"):
            raise ConfigError(f"adjacency: wanted replace_one or zero_out, found {adjacency!r}")
        field = update_field(method)
        asked = Asked(field, GATE_DEFENCE, clip_l2, noise_multiplier, "message", adjacency)
        rule = find_defence(GATE_DEFENCE).settle(asked)
        assert isinstance(rule, NoisyUpload)
        return cls(home, rule, method)

    def pass_on(
        self,
        run: str,
        base: Arrays,
        read_update: Callable[[], Update],
        *,
        sends_change: bool = False,
    ) -> dict[str, Array]:
        """Return the update that may leave, booked. Raise, and note it, where it may not.

        The release is booked before anybody looks at the update. A refusal tells of the data
        too, so it costs what an update costs, and the budget ends repeated ones. Refusals for
        reasons that are not in the update, such as the floor or the model that came, cost nothing.

        Arrays of whole numbers leave as they came (a change of 0), whatever the trainer made of
        them: nothing of the site's data is in them. Names, their order and all types are those of
        the model that came, since a trainer's own could tell of its data without any noise.

        read_update   trains, or reads what was trained
        sends_change  whether the difference leaves instead of the weights, whatever was trained
        """
        books = SiteBooks(self.home)
        try:
            policy = load_policy(self.home / POLICY_FILE)
            counters = {name: value for name, value in base.items() if _is_counter(value)}
            start = {name: value for name, value in base.items() if name not in counters}
            _check_model(start)
            self._check_room(start)
            self._book_release(books, policy, run)
            try:
                update, is_change = read_update()
                _check_names(base, update)
                values = _undo_counts(start, update, is_change=is_change)
                _check_alike(start, values)
                noised = self._noise_change(start, values, is_change=is_change)
                if not sends_change:
                    _add_arrays(noised, start)
                left = {name: _to_type(part, start[name]) for name, part in _cut_row(noised, start)}
            except Exception as error:
                raise UpdateRefused(f"{type(error).__name__}: {error}") from error
            fixed = {
                name: _to_zero(value) if sends_change else value for name, value in counters.items()
            }
            return {name: fixed[name] if name in fixed else left[name] for name in base}
        except Exception as error:
            if self.home.is_dir():
                books.note_refusal(run, 1, f"{type(error).__name__}: {error}")
            raise

    def _noise_change(self, base: Arrays, update: Arrays, *, is_change: bool) -> Tensor:
        """Return the clipped and noised change. NaN and infinities count as 0 in the clip.

        Rows of float64 are long: each is written once and changed in place.
        """
        change = _make_row(base)
        _add_arrays(change, update)
        if not is_change:
            _add_arrays(change, base, sign=-1)
        return self.rule.apply(change[None], SystemNoise(), _ONE, (self.field,))[0]

    def _check_room(self, base: Arrays) -> None:
        """Raise where the noise could pass the largest number of an array's type. The model that
        came, the clip and the noise are known to everybody."""
        sigma = self.rule.stddev(torch.Size([1]))
        for name, value in base.items():
            if not _largest_in(value) + self.rule.clip_l2 + TAILS * sigma < _largest_number(value):
                raise PrivacyError(
                    f"{name!s:.60}: found noise of standard deviation {sigma:g}; "
                    f"expected less, so that it fits into {value.dtype}; nothing was sent"
                )

    def _book_release(self, books: SiteBooks, policy: SitePolicy, run: str) -> None:
        """Check the floor and the budgets, and book. No other process books in between."""
        with books.take_turn("ledger"):
            self._book_in_turn(books, policy, run)

    def _book_in_turn(self, books: SiteBooks, policy: SitePolicy, run: str) -> None:
        number = len(books.released(run)) + 1
        reasons = policy.about(self.field, self.rule, masked=False)
        if policy.methods != "any" and self.method not in policy.methods:
            reasons.append(
                f"a job of {self.method}; allowed here: {', '.join(policy.methods) or 'none'}"
            )
        if "client" not in policy.units:
            reasons.append(f"epsilon is per client; allowed here: {', '.join(policy.units)}")
        if number > policy.max_rounds:
            reasons.append(f"update {number} of {run}; allowed here: {policy.max_rounds}")
        if reasons:
            raise JobRefused("; ".join(reasons))
        mechanism = self.rule.fact(self.field, 1, 1, protects=True)
        release = Release(mechanism, _ONE, round=number, step=1)
        books.check(policy, {mechanism: 1})
        books.book(run, 1, [Booked(self.method, self.field, number, 1, [release])])


def update_field(method: str) -> str:
    """Return the name of a framework's update in the books."""
    return f"{method}.update"


def open_home(home: Path, method: str = METHOD) -> Path:
    """A floor, strict, and empty books in a new folder; the path of the floor."""
    if home.exists() and any(home.iterdir()):
        raise ConfigError(f"{home} is not empty; wanted a new folder for a site's floor and books")
    write_policy(home / POLICY_FILE, SitePolicy(methods=(method,), masking="optional"))
    open_books(home)
    return home / POLICY_FILE


def _is_counter(value: object) -> bool:
    """Return whether an array has whole numbers, such as BatchNorm's count of batches."""
    if isinstance(value, Tensor):
        is_whole = not value.is_floating_point() and not value.is_complex()
        return is_whole and value.layout == torch.strided
    return type(value) is np.ndarray and value.dtype.kind in "iu"


def _undo_counts(base: Arrays, update: Arrays, *, is_change: bool) -> dict[str, Array]:
    """Return the update of `base`, in which single counts are unchanged.

    A server may average a counter into a fraction, and a trainer counts on in whole numbers. Such
    a number gets noise like the others: its type alone must tell nothing of the data.
    """
    values = {name: update[name] for name in base}
    for name, start in base.items():
        if _is_floating(start) and start.ndim == 0 and _is_single_count(update[name]):
            values[name] = _to_zero(start) if is_change else start
    return values


def _is_single_count(value: Array) -> bool:
    return _is_counter(value) and value.ndim == 0


def _to_zero(value: Array) -> Array:
    return torch.zeros_like(value) if isinstance(value, Tensor) else np.zeros_like(value)


def _check_names(base: Arrays, update: Arrays) -> None:
    """An update has the names of the model that came, and nothing else."""
    if not update or set(update) != set(base):
        raise PrivacyError(
            f"an update of {sorted(map(str, update))!s:.200}; the model that came has "
            f"{sorted(map(str, base))!s:.200}; nothing was sent"
        )


def _check_model(base: Arrays) -> None:
    """Raise unless the model that came has floating-point arrays beside its whole numbers."""
    if not base:
        raise PrivacyError("the model that came has whole numbers only; nothing was sent")
    for name, value in base.items():
        _check_floating(name, value)


def _check_alike(base: Arrays, update: Arrays) -> None:
    """An update has floating-point arrays, with the shapes of the model that came."""
    for name, value in update.items():
        _check_floating(name, value)
        if tuple(base[name].shape) != tuple(value.shape):
            raise PrivacyError(
                f"{name!s:.60} has shape {tuple(value.shape)}; the model that came has "
                f"{tuple(base[name].shape)}; nothing was sent"
            )


def _check_floating(name: str, value: Array) -> None:
    if not _is_floating(value):
        raise PrivacyError(
            f"{name!s:.60}: wanted an array of floating-point numbers, found "
            f"{getattr(value, 'dtype', type(value).__name__)}; nothing was sent"
        )


def _is_floating(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point() and value.layout == torch.strided
    return type(value) is np.ndarray and value.dtype in (np.float16, np.float32, np.float64)


def _make_row(like: Arrays) -> Tensor:
    """Return a row of zeros for all numbers of these arrays."""
    size = sum(math.prod(value.shape) for value in like.values())
    return torch.zeros(size, dtype=torch.float64)


def _cut_row(row: Tensor, like: Arrays) -> list[tuple[str, Tensor]]:
    """Return the row's parts by name, in the order of the names. They share its memory."""
    names, parts, start = sorted(like), [], 0
    for name in names:
        end = start + math.prod(like[name].shape)
        parts.append((name, row[start:end].view(tuple(like[name].shape))))
        start = end
    return parts


def _add_arrays(row: Tensor, arrays: Arrays, sign: int = 1) -> None:
    """Add arrays to a row, or take them off, in place."""
    for name, part in _cut_row(row, arrays):
        part.add_(_as_tensor(arrays[name]), alpha=sign)


def _as_tensor(value: Array) -> Tensor:
    """Return an array as a tensor, without a copy where that is possible."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    return torch.from_numpy(np.require(value, requirements=["C", "W"]))


def _largest_in(value: Array) -> float:
    """Return the largest absolute value, or NaN where there is one."""
    if math.prod(value.shape) == 0:
        return 0.0
    low, high = torch.aminmax(_as_tensor(value).double())
    return max(abs(float(low)), abs(float(high)))


def _to_type(part: Tensor, like: Array) -> Array:
    """Return the noised numbers in the type of `like`; one beyond it becomes its largest number."""
    largest = _largest_number(like)
    part.clamp_(-largest, largest)
    if isinstance(like, Tensor):
        return part.to(like.dtype, copy=True)
    return _cast_part(part, like)


def _largest_number(like: Array) -> float:
    """The largest number of an array's type, one of `_is_floating`."""
    named = (
        like.dtype if isinstance(like, Tensor) else torch.from_numpy(np.empty(0, like.dtype)).dtype
    )
    return float(torch.finfo(named).max)


def _cast_part(part: Tensor, like: NDArray[np.generic]) -> NDArray[np.generic]:
    with np.errstate(over="ignore"):
        return part.numpy().astype(like.dtype)
