"""Latents x W of clients that are nodes, the first W that the public seed gives, and gradients."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from attacks.base import Array, CannotAttack, Noise, View
from attacks.uploaded_rows import Rows, by_round
from securefg.protocol.meanings import Gradient, Layout, NodeRows, Weights

LATENT = NodeRows("latent", "client")
BACK = Gradient("latent")


def encoder_of(view: View) -> Layout:
    """The layer by which every client makes its latent."""
    for place in view.places(LATENT):
        meaning = view.meanings[place]
        if isinstance(meaning, NodeRows):
            return view.network(meaning.encoder)
    raise CannotAttack("no latents cross")


def first_weights(view: View) -> Tensor:
    """W_0, alike for all clients and drawn from the agreed seed: inputs by outputs."""
    encoder = encoder_of(view)
    if encoder.initial is None:
        raise CannotAttack("every client draws its own first weights, which nobody else knows")
    return encoder.part(encoder.initial(), encoder.inputs[0])


def latents(view: View) -> dict[int, Rows]:
    """By round."""
    return by_round(view.best_rows(LATENT))


def gradients(view: View) -> dict[int, Rows]:
    """What the server sent back, by round."""
    return by_round(view.downloads(BACK))


def first_latents(view: View) -> Rows:
    """The latents of round 1, made with W_0."""
    found = latents(view)
    if 1 not in found:
        raise CannotAttack("the latents of round 1 are not in the view")
    return found[1]


def clip_factors(rows: Array, noise: Noise | None) -> Array:
    """By how much clipping makes every row shorter."""
    size = np.linalg.norm(rows, axis=1)
    clip = math.inf if noise is None else noise.clip_l2
    found: Array = np.minimum(1.0, clip / np.maximum(size, 1e-300))
    return found


def needs_shared_start(view: View) -> str | None:
    if encoder_of(view).initial is None:
        return "every client draws its own first weights, which nobody else knows"
    return None


def sends_weights(view: View) -> bool:
    """Whether clients upload the layer itself beside the latents."""
    return bool(view.uploads(Weights()) or view.sums(Weights()))
