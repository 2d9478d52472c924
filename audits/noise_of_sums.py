"""The noise on the sums of a run, for gains that follow from its law."""

from __future__ import annotations

import torch

from attacks.base import Place, View
from audits.closed_form import SumNoise
from audits.truth import Truth
from securefg.privacy.defence import NoisyUpload
from securefg.protocol.meanings import Meaning
from securefg.protocol.transcript import Adversary


def noise_of_sum(truth: Truth, need: Meaning, adversary: Adversary, view: View) -> SumNoise | None:
    """Return the noise on the sum of this meaning, or None if there is no noise, or not of one law.

    view  the server's: it says whose noises are in the sum
    """
    places = [place for place, meaning in truth.meanings.items() if meaning.fits(need)]
    sent = [place for place in places if place in view.noise]
    return noise_at(truth, sent[0], adversary, view) if len(sent) == 1 else None


def noise_at(truth: Truth, place: Place, adversary: Adversary, view: View) -> SumNoise | None:
    """Return the noise on the sum of one field.

    If the server reads uploads one by one, only the holder's noise is on the target's move. A
    client knows its own noise.
    """
    noise, kind = view.noise.get(place), place[0]
    if noise is None or view.noise_left:
        return None
    rule = truth.experiment.policy.rule(truth.experiment.method.message(kind), place[1])
    opened = [seen for seen in view.seen if seen.header.kind == f"{kind}.sum"]
    plain = [seen for seen in view.seen if seen.header.up and seen.header.kind == kind]
    if len({seen.header.round for seen in plain}) != 1:
        return None
    if not isinstance(rule, NoisyUpload):
        return None
    law = rule.law(torch.Size([1]))
    if not law.is_gaussian:
        return None
    if not rule.needs_masks and not opened and adversary.kind == "server":
        return SumNoise(noise.sd)
    count = sum(len(seen.clients) for seen in (opened or plain)) - len(adversary.clients)
    if count < 1:
        return None
    if rule.needs_masks and len(opened) != 1:
        return None
    step = law.step if law.is_discrete else 0.0
    return SumNoise(noise.sd * count**0.5, count, step)
