"""What a client with a given row would have uploaded, and how likely that makes what was seen.

Of Gaussian noise the log likelihood of y is -|y - clip(u(x))|^2 / 2 sd^2, u(x) being what a client
whose row is x computes from the model that it was sent. Rounds and fields have noise of their own,
so their log likelihoods add. Without noise the same is taken with hardly any.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, CannotAttack, Message, Noise, View
from attacks.client_rows import noise_of
from attacks.latent_paths import FAR, paths
from attacks.latents import LATENT, first_weights
from securefg.protocol.meanings import Jacobian, Layout, Meaning, NodeRows, Weights

SLOPE, HIDDEN = Jacobian(), NodeRows("hidden", "client")
MODEL = Weights(change=False)
ROUNDS = 5
AT_ONCE = 32
HARDLY = 1e-3
"""Noise that is taken where there is none, as a share of the uploads' own size."""


def of_models(view: View, ids: NDArray[np.int64], pool: Tensor) -> Iterator[Array]:
    """(targets, pool), for every round and field that a perceptron's clients upload."""
    sent = {m.round: m.value for m in view.downloads(MODEL)}
    for need in (SLOPE, HIDDEN):
        messages = [m for m in view.uploads(need) if not m.masked]
        rounds = sorted({m.round for m in messages} & sent.keys())[:ROUNDS]
        for number in rounds:
            own = [m for m in messages if m.round == number]
            layout = _layout(view, own[0].meaning)
            yield _likelihood(own, ids, pool, sent[number], layout)


def _layout(view: View, meaning: Meaning) -> Layout:
    """The network that made rows; of a Jacobian the one whose first layer has as many units."""
    if isinstance(meaning, NodeRows):
        return view.network(meaning.encoder)
    assert isinstance(meaning, Jacobian)
    fitting = [found for found in view.networks.values() if found.hidden == meaning.units]
    if len(fitting) != 1:
        raise CannotAttack(f"{len(fitting)} networks with {meaning.units} units; wanted one")
    return fitting[0]


def _likelihood(
    messages: list[Message], ids: NDArray[np.int64], pool: Tensor, model: Tensor, layout: Layout
) -> Array:
    by_client = {k: m.value[i] for m in messages for i, k in enumerate(m.clients.numbers())}
    if missing := [k for k in ids.tolist() if k not in by_client]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing in round {messages[0].round}")
    seen = torch.stack([by_client[k].flatten().float() for k in ids.tolist()])
    assert layout.output is not None
    first, second = layout.part(model, layout.inputs[0]), layout.part(model, layout.output)
    slope, noise = isinstance(messages[0].meaning, Jacobian), messages[0].noise
    found = np.empty((len(seen), len(pool)))
    for start in range(0, len(pool), AT_ONCE):
        rows = pool[start : start + AT_ONCE]
        before = rows @ first
        made = _compact(before, rows) if slope else before.relu() @ second
        found[:, start : start + AT_ONCE] = _gaussian(seen, made, noise)
    return found


def _compact(before: Tensor, rows: Tensor) -> Tensor:
    """[M | m] of one sample, flat: the sample at every open gate, and the hidden layer."""
    gates = (before > 0).to(rows.dtype)
    matrix = torch.cat([gates[:, :, None] * rows[:, None], before.relu()[..., None]], 2)
    return matrix.flatten(1)


def _gaussian(seen: Tensor, made: Tensor, noise: Noise | None) -> Array:
    """-|seen - clip(made)|^2 / 2 sd^2 without the term that all candidates share."""
    sd = HARDLY * float(seen.norm(dim=1).mean()) if noise is None else noise.sd
    if noise is not None:
        made = made * (noise.clip_l2 / made.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1)
    found = (seen @ made.T).double() - 0.5 * made.double().square().sum(1)
    likely: Array = (found / sd**2).numpy()
    return likely


def of_latents(view: View, ids: NDArray[np.int64], pool: Tensor) -> Array:
    """(targets, pool), over all rounds: a candidate's latent moves as far as its own sum says."""
    found, noise = paths(view, ids), noise_of(view, LATENT)
    start, sizes = (pool @ first_weights(view).float()).double().numpy(), pool.abs().sum(1).numpy()
    known = noise or Noise(HARDLY * float(np.linalg.norm(start, axis=1).mean()), np.inf)
    misfits = []
    for upload, move in zip(found.uploads, found.moves, strict=True):
        made = start[None] + sizes[None, :, None] * move[:, None]
        length = np.maximum(np.linalg.norm(made, axis=2, keepdims=True), 1e-300)
        made *= np.minimum(1, known.clip_l2 / length)
        misfits.append(((upload[:, None] - made) ** 2).sum(2) / known.sd**2)
    joint = np.sum(misfits, 0)
    numbers = len(misfits) * start.shape[1]
    # Whom decay moved more than gradients, no candidate fits over all rounds: the first is left.
    fits = joint.min(1) < numbers + FAR * np.sqrt(2 * numbers)
    likely: Array = -0.5 * np.where(fits[:, None], joint, misfits[0])
    return likely
