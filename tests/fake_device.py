"""A device that is not there: tensors on it hold CPU tensors, and behave towards others as a GPU's.

What a GPU refuses is refused: operations with tensors of another device, `numpy()`. What it allows
at the price of waiting, a copy to the CPU, is written down with the line of ours that asked.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
ROOT = Path(__file__).parents[1]
ROOMS = ("securefg", "attacks", "audits")
aten = torch.ops.aten
# A GPU takes indices that are on the CPU; index_put_'s too.
INDEXING = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default)


class Remote(torch.Tensor):
    """A tensor on the fake device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Remote:
        strides = held.stride() if held.layout == torch.strided else None
        made: Remote = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, device=DEVICE, strides=strides
        )
        made.held = held
        return made

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {}, [])


def computed(func: Any, args: Any, kwargs: dict[str, Any], moves: list[str]) -> Any:
    """The operation on what the tensors hold; a result that is a GPU's stays there."""
    device = kwargs.get("device")
    if func is aten._to_copy.default:
        return _moved(func, args, kwargs, moves)
    tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
    remote = any(isinstance(t, Remote) for t in tensors)
    if func is aten._local_scalar_dense.default and remote:
        moves.append(_line())
        return func(args[0].held)
    if func is aten.copy_.default and remote:
        if not isinstance(args[0], Remote):
            moves.append(_line())
        _held(args[0]).copy_(_held(args[1]))
        return args[0]
    if remote and func not in INDEXING:
        here = [tuple(t.shape) for t in tensors if not isinstance(t, Remote) and t.dim()]
        if here:
            raise RuntimeError(f"{func}: a tensor of shape {here[0]} is on the CPU, others are not")
    if device is not None and torch.device(device) == DEVICE:
        kwargs, remote = {**kwargs, "device": torch.device("cpu")}, True
    out = func(*tree_map(_held, args), **tree_map(_held, kwargs))
    if not remote:
        return out
    known = {id(t.held): t for t in tensors if isinstance(t, Remote)}

    def kept(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return known[id(value)] if id(value) in known else Remote(value)

    return tree_map(kept, out)


def _moved(func: Any, args: Any, kwargs: dict[str, Any], moves: list[str]) -> torch.Tensor:
    source = args[0]
    device = torch.device(kwargs.get("device") or source.device)
    there = device.type == DEVICE.type
    if isinstance(source, Remote) and not there:
        moves.append(_line())
    out: torch.Tensor = func(_held(source), **{**kwargs, "device": torch.device("cpu")})
    return Remote(out) if there else out


def _held(value: Any) -> Any:
    return value.held if isinstance(value, Remote) else value


def _line() -> str:
    """The innermost line of our own rooms."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ROOMS:
            return f"{path.relative_to(ROOT)}: {frame.line}"
    return "elsewhere"


class Fake(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.moves: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {}, self.moves)


class Generator(torch.Generator):
    """Streams of the fake device, which draw on the CPU."""

    place: torch.device

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls, "cpu")
        made.place = torch.device(device)
        return made

    @property
    def device(self) -> torch.device:
        return self.place


@contextmanager
def fake_device() -> Iterator[list[str]]:
    """Gives the list of lines that moved something off the device."""
    plain, torch.Generator = torch.Generator, Generator  # type: ignore[misc]
    try:
        with Fake() as mode:
            yield mode.moves
    finally:
        torch.Generator = plain  # type: ignore[misc]
