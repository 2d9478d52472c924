"""Networks that were given as objects: named by what they are, found again in the same process."""

from __future__ import annotations

import ast
import copy
import hashlib
import inspect
import io
import linecache
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from securefg.foundation.errors import InputError

Make = Callable[..., nn.Module]
_GIVEN: dict[str, Make] = {}


def reference(model: nn.Module | Make) -> str:
    """Return a path for `method.network`.

    A class or function of a module is its own path, which every process can import. A network that
    was written in a notebook or comes with its weights has a name with a hash of its source and
    weights: two networks are never taken for one, and only this process can run it.
    """
    if isinstance(model, nn.Module):
        return _register_module(
            type(model).__name__, _weight_bytes(model), lambda *_, **__: _copy_model(model)
        )
    if not callable(model):
        raise InputError(
            f"model: found {type(model).__name__}; wanted a torch.nn.Module, or a class or "
            "function of (num_features, num_classes) that makes one"
        )
    module, name = getattr(model, "__module__", ""), getattr(model, "__qualname__", "")
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is model:
        return f"{module}.{name}"
    return _register_module(
        getattr(model, "__name__", "network"), _source_text(model).encode(), model
    )


def _register_module(name: str, content: bytes, make: Make) -> str:
    key = f"{name.strip('<>')}_{hashlib.sha256(content).hexdigest()[:12]}"
    _GIVEN[key] = make
    return f"{__name__}.{key}"


def _copy_model(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).cpu()


def _weight_bytes(model: nn.Module) -> bytes:
    """Return the weights and the source: the same class with other weights is another network."""
    buffer = io.BytesIO()
    for name, value in model.state_dict().items():
        buffer.write(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        buffer.write(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return _source_text(type(model)).encode() + repr(model).encode() + buffer.getvalue()


def _source_text(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError) as error:
        found = _source_in_a_cell(thing)
        if found is not None:
            return found
        raise InputError(
            f"model: the source of {getattr(thing, '__name__', thing)!r} cannot be read, so that "
            "its runs could not be told apart; put the class into a file and import it"
        ) from error


def _source_in_a_cell(thing: Any) -> str | None:
    """Return the source of a notebook's class, which no file holds. It is found by its methods'
    code."""
    methods = filter(inspect.isfunction, vars(thing).values()) if inspect.isclass(thing) else ()
    for method in methods:
        lines = linecache.getlines(method.__code__.co_filename)
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == thing.__name__:
                end = node.end_lineno or node.lineno
                if node.lineno <= method.__code__.co_firstlineno <= end:
                    return "".join(lines[node.lineno - 1 : end])
    return None


def __getattr__(name: str) -> Make:
    if name in _GIVEN:
        return _GIVEN[name]
    raise AttributeError(
        f"{name} was given as an object to another Python process; put its class into a file"
    )
