"""What a server of nFedGNN has of every user: latents, gradients it sent, and the first weights."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from attacks.base import Array, CannotAttack, Message, View
from attacks.uploaded_rows import Rows
from securefg.foundation.streams import derive_seed
from securefg.models.user_init import shared_weights

LATENTS, LEARN, LEARNT = "nfedgnn.Latents", "nfedgnn.Learn", "nfedgnn.Learnt"


def first_weights(view: View) -> Tensor:
    """W_0, alike for all users and drawn from the agreed seed."""
    seed = derive_seed(view.seed, "clients")
    return shared_weights(view.public.num_features, view.settings.width, seed)


def latents(view: View) -> dict[int, Rows]:
    """By round."""
    return _by_round(view.best_rows(LATENTS, "latent"))


def gradients(view: View) -> dict[int, Rows]:
    """What the server sent back, by round."""
    return _by_round(view.downloads(LEARN, "gradient"))


def first_latents(view: View) -> Rows:
    """The latents of round 1, made with W_0."""
    found = latents(view)
    if 1 not in found:
        raise CannotAttack("the latents of round 1 are not in the view")
    return found[1]


def _by_round(messages: list[Message]) -> dict[int, Rows]:
    found = {}
    for number in sorted({message.round for message in messages}):
        own = [message for message in messages if message.round == number]
        ids = np.concatenate([m.clients.numbers() for m in own]).astype(np.int64)
        values: Array = np.concatenate([m.value.flatten(1).double().numpy() for m in own])
        found[number] = Rows(ids, values)
    return found


def needs_shared_start(settings: object) -> str | None:
    if getattr(settings, "init", "") != "shared":
        return "every user draws its own W, which the server does not know"
    if getattr(settings, "upload", "latents") != "latents":
        return "sums over neighbourhoods are uploaded, not latents"
    return None
