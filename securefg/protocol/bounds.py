"""Bounds of the values that a field of a request may hold, in terms of sizes that everybody knows.

    pseudo_labels: Tensor | None = public(
        "label per node", bounds=lambda s, p: whole_numbers((p.num_nodes,), -1, p.num_classes - 1)
    )

A host computes on private data with what a server sent. If an array of the wrong shape, or with a
number out of range, made some hosts fail and others not, the failure would tell of the data. Every
field is therefore checked against its bounds before a host sees the request. Bounds depend on the
method's settings and on public sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import torch
from torch import Tensor

from securefg.foundation.errors import ProtocolError
from securefg.protocol.arrays import all_finite

Shape = tuple[int | None, ...]
WHOLE: Final = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


class PublicSizes(Protocol):
    """A set of sizes of a run that every party knows."""

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes in the global index."""

    @property
    def num_features(self) -> int:
        """Return the number of features of a node."""

    @property
    def num_classes(self) -> int:
        """Return the number of classes."""

    @property
    def num_clients(self) -> int:
        """Return the number of clients."""

    @property
    def num_public(self) -> int:
        """Return the number of public nodes."""


@dataclass(frozen=True)
class Bound:
    """A bound on the values that one field may hold.

    kind       real: finite numbers of the default floating-point type; whole: integers; truth:
               booleans
    shape      of the array, without the axis of the clients in a personal field; None stands for
               any length; a scalar has the shape ()
    low, high  the smallest and the largest value
    round      the number must be the round of the request, or a round up to it; `low` and `high`
               do not count
    """

    kind: Literal["real", "whole", "truth"]
    shape: Shape = ()
    low: float = -math.inf
    high: float = math.inf
    round: Literal["this", "past"] | None = None

    @property
    def words(self) -> str:
        """Return the bound in words, for an error."""
        names = {"real": "finite numbers", "whole": "whole numbers", "truth": "truth values"}
        within = f" from {self.low:g} to {self.high:g}" if self.has_range else ""
        return f"{names[self.kind]}{within}"

    @property
    def has_range(self) -> bool:
        """Return whether the bound limits values to an interval."""
        return self.low > -math.inf or self.high < math.inf


Bounds = Callable[[Any, PublicSizes], Bound]
"""The bound of a field, from the method's settings and the public sizes."""

THIS_ROUND: Final = Bound("whole", round="this")
PAST_ROUND: Final = Bound("whole", round="past")


def reals(shape: Shape = (), low: float = -math.inf, high: float = math.inf) -> Bound:
    """Return the bound of finite numbers."""
    return Bound("real", shape, low, high)


def whole_numbers(shape: Shape, low: int, high: int) -> Bound:
    """Return the bound of integers from `low` to `high`."""
    return Bound("whole", shape, low, high)


def exactly(number: int) -> Bound:
    """Return the bound of one integer that everybody knows."""
    return Bound("whole", (), number, number)


def truths(shape: Shape) -> Bound:
    """Return the bound of booleans."""
    return Bound("truth", shape)


@dataclass(frozen=True)
class Rounds:
    """A range of the numbers that a field may give as its round."""

    low: int
    high: int


def check_value(
    name: str, value: Any, bound: Bound, rounds: Rounds, num_clients: int | None = None
) -> None:
    """Raise `ProtocolError` unless the value lies within its bound.

    num_clients  the length of the first axis of a personal array; None for a public one
    """
    if bound.round is not None:
        low = rounds.low if bound.round == "this" else 0
        bound = Bound("whole", (), low, rounds.high)
    if isinstance(value, Tensor):
        shape = bound.shape if num_clients is None else (num_clients, *bound.shape)
        _check_array(name, value, bound, shape)
    else:
        _check_scalar(name, value, bound)


def _check_scalar(name: str, value: Any, bound: Bound) -> None:
    kinds: dict[str, type] = {"real": float, "whole": int, "truth": bool}
    is_finite = not isinstance(value, float) or math.isfinite(value)
    fits = type(value) is kinds[bound.kind] and is_finite
    if not fits or not bound.low <= value <= bound.high:
        raise ProtocolError(f"{name}: found {value!r:.40}; expected {bound.words}")


def _check_array(name: str, value: Tensor, bound: Bound, shape: Shape) -> None:
    found_shape = tuple(value.shape)
    fits = len(found_shape) == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(found_shape, shape, strict=True)
    )
    if not fits:
        words = ", ".join("any" if size is None else str(size) for size in shape)
        raise ProtocolError(f"{name}: found the shape {found_shape}; expected ({words})")
    kinds = {"real": (torch.get_default_dtype(),), "whole": WHOLE, "truth": (torch.bool,)}
    if value.dtype not in kinds[bound.kind]:
        raise ProtocolError(f"{name}: found {value.dtype}; expected {bound.words}")
    if bound.kind == "truth" or not value.numel():
        return
    if bound.kind == "real" and not all_finite(value):
        raise ProtocolError(f"{name}: found NaN or infinity; expected {bound.words}")
    if bound.has_range:
        low, high = (end.item() for end in torch.aminmax(value))
        if low < bound.low or high > bound.high:
            raise ProtocolError(
                f"{name}: found numbers from {low:g} to {high:g}; expected {bound.words}"
            )


def require_same(name: str, lengths: Mapping[str, int]) -> None:
    """Raise `ProtocolError` unless all these lengths are the same."""
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{part} {length}" for part, length in lengths.items())
        raise ProtocolError(f"{name}: found the lengths {words}; expected the same of all")
