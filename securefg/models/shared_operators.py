"""Operators of a graph that are asked for again and again, each made once.

A model that is queried many times mostly reads the same edges, features and pseudo graph. Nothing
is kept outside `SharedOperators.in_use`, so that training holds no more memory than it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

Made = TypeVar("Made")
KEPT: Final = 2
"""Operators kept by kind: the one of the graph as it is, and the one asked for last."""


@dataclass(frozen=True)
class _Kept:
    """An operator, the tensors that it was made of, and their versions at that time."""

    inputs: tuple[Tensor, ...]
    versions: tuple[int, ...]
    settings: tuple[object, ...]
    made: Any

    def is_made_of(self, inputs: tuple[Tensor, ...], settings: tuple[object, ...]) -> bool:
        """Return whether the same tensors would give the same operator."""
        if settings != self.settings or self.versions != _tensor_versions(self.inputs):
            return False
        return all(map(_are_equal, inputs, self.inputs))


class SharedOperators:
    """A store of operators that several queries of one model share."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Kept, ...]] = {}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Share operators with all other queries that use this object."""
        token = _ACTIVE.set(self)
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def find_or_make(
        self,
        kind: str,
        inputs: tuple[Tensor, ...],
        settings: tuple[object, ...],
        make: Callable[[], Made],
    ) -> Made:
        """Return the operator that these tensors gave before, or make it."""
        kept = self._kept.get(kind, ())
        for one in kept:
            if one.is_made_of(inputs, settings):
                found: Made = one.made
                return found
        new = _Kept(inputs, _tensor_versions(inputs), settings, make())
        self._kept[kind] = (*kept[: KEPT - 1], new)
        return new.made  # type: ignore[no-any-return]


_ACTIVE: ContextVar[SharedOperators | None] = ContextVar("shared operators", default=None)


def share_operator(
    kind: str,
    inputs: tuple[Tensor, ...],
    settings: tuple[object, ...],
    make: Callable[[], Made],
) -> Made:
    """Make an operator, or return the equal one of the operators in use.

    settings  all beside the tensors that the operator depends on
    """
    active = _ACTIVE.get()
    return make() if active is None else active.find_or_make(kind, inputs, settings, make)


def _tensor_versions(inputs: tuple[Tensor, ...]) -> tuple[int, ...]:
    return tuple(tensor._version for tensor in inputs)


def _are_equal(tensor: Tensor, other: Tensor) -> bool:
    if tensor is other:
        return True
    alike = tensor.dtype == other.dtype and tensor.device == other.device
    return alike and torch.equal(tensor, other)
