"""Adam (Kingma and Ba 2015) and gradient descent with L2 regularisation, over plain tensors.

Adam is the same arithmetic as `torch.optim.Adam`, whose first use loads PyTorch's compiler: two
seconds per process, which a federation of processes pays once per host. On CPUs it is the kernel
behind `fused=True`, one pass over memory in place of eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Adam:
    """An optimizer: w -= lr m_hat / (sqrt(v_hat) + eps), with g := g + decay w. It has one decay
    per parameter."""

    parameters: Sequence[Tensor]
    weight_decay: Sequence[float]
    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    step_count: int = 0
    first: list[Tensor] = field(init=False)
    second: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.first = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step along these gradients, one per parameter."""
        self.step_count += 1
        count = torch.tensor(float(self.step_count))
        parts = (self.parameters, gradients, self.first, self.second, self.weight_decay)
        for w, g, m, v, decay in zip(*parts, strict=True):
            if w.device.type == "cpu" and w.is_contiguous() and g.shape == w.shape:
                self._step_at_once(w, g.contiguous(), m, v, decay, count)
            else:
                self._step_in_parts(w, g, m, v, decay)

    def _step_at_once(
        self, w: Tensor, g: Tensor, m: Tensor, v: Tensor, decay: float, count: Tensor
    ) -> None:
        torch._fused_adam_(
            *([w], [g], [m], [v], [], [count]),
            lr=self.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def _step_in_parts(self, w: Tensor, g: Tensor, m: Tensor, v: Tensor, decay: float) -> None:
        correction1 = 1 - self.betas[0] ** self.step_count
        correction2 = 1 - self.betas[1] ** self.step_count
        decayed = g.add(w, alpha=decay) if decay else g
        m.lerp_(decayed, 1 - self.betas[0])
        v.mul_(self.betas[1]).addcmul_(decayed, decayed, value=1 - self.betas[1])
        spread = v.sqrt().div_(correction2**0.5).add_(self.eps)
        w.addcdiv_(m, spread, value=-self.lr / correction1)

    def state(self) -> dict[str, Tensor]:
        """Return moments and step count, for a checkpoint."""
        moments = {f"first.{i}": m.clone() for i, m in enumerate(self.first)}
        moments |= {f"second.{i}": v.clone() for i, v in enumerate(self.second)}
        return {**moments, "step_count": torch.tensor(self.step_count)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from a stored state."""
        self.step_count = int(state["step_count"])
        for i in range(len(self.parameters)):
            self.first[i].copy_(state[f"first.{i}"])
            self.second[i].copy_(state[f"second.{i}"])


@dataclass
class SteppedAdam(Adam):
    """An Adam to the bit as `torch.optim.Adam` computes it by default, in eight passes over
    memory."""

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step along these gradients, one per parameter."""
        self.step_count += 1
        parts = (self.parameters, gradients, self.first, self.second, self.weight_decay)
        for w, g, m, v, decay in zip(*parts, strict=True):
            self._step_in_parts(w, g, m, v, decay)


@dataclass(frozen=True)
class Sgd:
    """An optimizer: w -= lr (g + decay w). It has one decay per parameter, and keeps no state."""

    parameters: Sequence[Tensor]
    weight_decay: Sequence[float]
    lr: float

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Take one step along these gradients, one per parameter."""
        for w, g, decay in zip(self.parameters, gradients, self.weight_decay, strict=True):
            w.sub_(g.add(w, alpha=decay) if decay else g, alpha=self.lr)

    def state(self) -> dict[str, Tensor]:
        """Return nothing, because there is nothing to store."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Do nothing, because there is nothing to restore."""
