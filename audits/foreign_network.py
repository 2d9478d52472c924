"""The network of another framework's recording, built by the auditor's own code.

A recording holds names and shapes of weights and no code. The auditor names a class or a function
(`--network task:Net`), which is called without arguments and returns a `torch.nn.Module`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from attacks.base import CannotAttack
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import import_path
from securefg.protocol.exchange import Exchange

Samples = NDArray[np.float32]


def find_network(path: str) -> Callable[[], Any]:
    """Import the class or function that makes the network. Look from the working folder too."""
    module, _, name = path.replace(":", ".").rpartition(".")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        if not module:
            raise ModuleNotFoundError("no module is named")
        made: Callable[[], Any] = getattr(import_path("--network", module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ConfigError(
            f"--network: found {path}, which cannot be imported from here ({error}); expected "
            "MODULE:NAME of a class or function that returns a torch.nn.Module"
        ) from error
    return made


@dataclass(frozen=True)
class ForeignNetwork:
    """A network with the weights of a flat row, as samples pass it in an evaluation."""

    module: nn.Module
    names: tuple[str, ...]
    exchange: Exchange
    reads_tokens: bool = False
    _turn: Any = field(default_factory=Lock, compare=False, repr=False)
    """Attacks run side by side, and a call puts its weights into the one module for a while."""

    @classmethod
    def from_path(
        cls, path: str, exchange: Exchange, samples: Samples | None = None
    ) -> ForeignNetwork:
        """Make the network. Raise `ConfigError` where its weights are not those of the record, or
        where it does not read the samples.

        A network with an embedding reads samples of whole numbers as tokens.
        """
        try:
            module = find_network(path)()
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"--network: {path} cannot be made: {_first_words(error)}") from error
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"--network: {path} gave a {type(module).__name__}; expected a torch.nn.Module"
            )
        state = {name: t for name, t in module.state_dict().items() if t.is_floating_point()}
        recorded = {layer.name: layer.shape for layer in exchange.layers}
        # Lists of arrays have no names: their order is that of the module.
        names = tuple(recorded if recorded.keys() == state.keys() else state)
        if [tuple(state[name].shape) for name in names] != list(recorded.values()):
            held = {name: list(t.shape) for name, t in state.items()}
            raise ConfigError(
                f"--network: {path} has weights {str(held)[:160]}; expected those of the record, "
                f"{str({name: list(shape) for name, shape in recorded.items()})[:160]}"
            )
        has_embedding = any(isinstance(part, nn.Embedding) for part in module.modules())
        is_whole = samples is not None and bool((samples == np.rint(samples)).all())
        made = cls(module.eval(), names, exchange, has_embedding and is_whole)
        if samples is not None:
            made._check_sample(samples)
        return made

    def _check_sample(self, samples: Samples) -> None:
        """Raise `ConfigError` unless the network gives one sample a score per class."""
        classes = self.exchange.classes
        try:
            with torch.no_grad():
                scores = self(torch.zeros(self.exchange.width), torch.from_numpy(samples[:1]))
        except Exception as error:
            raise ConfigError(
                f"--network: fails on a sample of shape {samples.shape[1:]}: "
                f"{_first_words(error)}; expected samples in the shape that the network reads"
            ) from error
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        if shape != (1, classes):
            raise ConfigError(
                f"--network: found {shape} for one sample; expected a score per class, "
                f"{(1, classes)} (classes)"
            )

    def __call__(self, weights: Tensor, samples: Tensor) -> Tensor:
        """Return the scores that the network with these weights gives."""
        if self.reads_tokens and samples.requires_grad:
            raise CannotAttack("the network reads whole numbers, which have no gradient")
        read = samples.long() if self.reads_tokens else samples.to(weights.dtype)
        with self._turn:
            found: Tensor = functional_call(self.module, self._cut_weights(weights), (read,))
        return found

    def _cut_weights(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the arrays of a flat row. Running means have no gradient."""
        trained = dict(self.module.named_parameters()).keys()
        places = self.exchange.slices.values()
        return {
            name: (weights if name in trained else weights.detach())[place].reshape(layer.shape)
            for name, layer, place in zip(self.names, self.exchange.layers, places, strict=True)
        }


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
