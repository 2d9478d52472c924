"""Attacks by an adversary who holds a list of records (a leaked table, a register).

They ask which record belongs to a pseudonymous client, or which records a client's graph has.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Message, Noise, View
from attacks.evidence import lean_evidence
from attacks.latents import (
    FAR_SDS,
    LATENT,
    clip_factors,
    first_latents,
    first_weights,
    latent_paths,
    needs_shared_start,
)
from attacks.models import INSIDE_SPAN, MODEL, moved_by, reads_a_span
from attacks.questions import CandidateRows, Identify, ListedRecords
from attacks.rows import noise_of
from securefg.protocol.meanings import Jacobian, Layout, Meaning, NodeRows, Weights

SLOPE, HIDDEN = Jacobian(), NodeRows("hidden", "client")
SENT_MODEL = Weights(change=False)
CANDIDATE_ROUNDS = 5
AT_ONCE = 32
HARDLY = 1e-3
"""Noise that is taken where there is none, as a share of the uploads' own size."""


def likelihood_by_models(view: View, ids: NDArray[np.int64], pool: Tensor) -> Iterator[Array]:
    """Yield (targets, pool) log likelihoods, for every round and field that a perceptron's clients
    upload.

    For Gaussian noise the log likelihood of y is -|y - clip(u(x))|^2 / 2 sd^2, u(x) being what a
    client whose row is x computes from the model that it was sent. Rounds and fields have noise of
    their own, so their log likelihoods add. Without noise the same is taken with hardly any.
    """
    sent = {m.round: m.value for m in view.downloads(SENT_MODEL)}
    for need in (SLOPE, HIDDEN):
        messages = [m for m in view.uploads(need) if not m.masked]
        rounds = sorted({m.round for m in messages} & sent.keys())[:CANDIDATE_ROUNDS]
        for number in rounds:
            own = [m for m in messages if m.round == number]
            layout = _find_layout(view, own[0].meaning)
            yield _compute_likelihood(own, ids, pool, sent[number], layout)


def _find_layout(view: View, meaning: Meaning) -> Layout:
    """Return the network that made the rows. For a Jacobian this is the network whose first layer
    has as many units."""
    if isinstance(meaning, NodeRows):
        return view.network(meaning.encoder)
    assert isinstance(meaning, Jacobian)
    fitting = [found for found in view.networks.values() if found.hidden == meaning.units]
    if len(fitting) != 1:
        raise CannotAttack(f"{len(fitting)} networks with {meaning.units} units; wanted one")
    return fitting[0]


def _compute_likelihood(
    messages: list[Message], ids: NDArray[np.int64], pool: Tensor, model: Tensor, layout: Layout
) -> Array:
    by_client = {k: m.value[i] for m in messages for i, k in enumerate(m.clients.numbers())}
    if missing := [k for k in ids.tolist() if k not in by_client]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing in round {messages[0].round}")
    seen = torch.stack([by_client[k].flatten().float() for k in ids.tolist()])
    assert layout.output is not None
    first, second = layout.part(model, layout.inputs[0]), layout.part(model, layout.output)
    slope, noise = isinstance(messages[0].meaning, Jacobian), messages[0].noise
    log_likelihoods = np.empty((len(seen), len(pool)))
    for start in range(0, len(pool), AT_ONCE):
        rows = pool[start : start + AT_ONCE]
        before = rows @ first
        made = _compact_rows(before, rows) if slope else before.relu() @ second
        log_likelihoods[:, start : start + AT_ONCE] = _gaussian_fit(seen, made, noise)
    return log_likelihoods


def _compact_rows(before: Tensor, rows: Tensor) -> Tensor:
    """Return [M | m] of one sample, flat: the sample at every open gate, and the hidden layer."""
    gates = (before > 0).to(rows.dtype)
    matrix = torch.cat([gates[:, :, None] * rows[:, None], before.relu()[..., None]], 2)
    return matrix.flatten(1)


def _gaussian_fit(seen: Tensor, made: Tensor, noise: Noise | None) -> Array:
    """Return -|seen - clip(made)|^2 / 2 sd^2 without the term that all candidates share."""
    sd = HARDLY * float(seen.norm(dim=1).mean()) if noise is None else noise.sd
    if noise is not None:
        made = made * (noise.clip_l2 / made.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1)
    found = (seen @ made.T).double() - 0.5 * made.double().square().sum(1)
    likely: Array = (found / sd**2).numpy()
    return likely


def likelihood_by_latents(view: View, ids: NDArray[np.int64], pool: Tensor) -> Array:
    """Return (targets, pool) log likelihoods over all rounds: a candidate's latent moves as far as
    the sum of its own features says."""
    target_paths, noise = latent_paths(view, ids), noise_of(view, LATENT)
    start, sizes = (pool @ first_weights(view).float()).double().numpy(), pool.abs().sum(1).numpy()
    known = noise or Noise(HARDLY * float(np.linalg.norm(start, axis=1).mean()), np.inf)
    misfits = []
    for upload, move in zip(target_paths.uploads, target_paths.moves, strict=True):
        made = start[None] + sizes[None, :, None] * move[:, None]
        length = np.maximum(np.linalg.norm(made, axis=2, keepdims=True), 1e-300)
        made *= np.minimum(1, known.clip_l2 / length)
        misfits.append(((upload[:, None] - made) ** 2).sum(2) / known.sd**2)
    joint = np.sum(misfits, 0)
    numbers = len(misfits) * start.shape[1]
    # Whom decay moved more than gradients, no candidate fits over all rounds: the first is left.
    fits = joint.min(1) < numbers + FAR_SDS * np.sqrt(2 * numbers)
    likely: Array = -0.5 * np.where(fits[:, None], joint, misfits[0])
    return likely


def candidate_rows(view: View, question: CandidateRows, rng: np.random.Generator) -> Array:
    """Return a score for every target and candidate: the likelihood of all that the client
    uploaded.

    Under noise the first place is soon lost, but ranks are not: every candidate's upload is
    computed and compared with the uploads seen, rounds and fields together, and the evidence of
    neighbours' rows is added. Nobody who knows the policy can do better (Neyman and Pearson 1933).
    """
    pool = torch.from_numpy(question.candidates).float()
    row_scores = np.zeros((len(question.ids), len(pool)))
    if view.places(LATENT):
        row_scores = row_scores + likelihood_by_latents(view, question.ids, pool)
    else:
        terms = list(likelihood_by_models(view, question.ids, pool))
        if not terms:
            raise CannotAttack("no round in which both a model and uploads made by it are readable")
        row_scores = row_scores + np.sum(terms, 0)
    return row_scores if question.prior is None else row_scores + question.prior


def _can_be_computed(view: View) -> str | None:
    return needs_shared_start(view) if view.places(LATENT) else None


CANDIDATE_ROWS = Attack(
    name="candidate_rows",
    summary="which of some hundred candidate rows is a client's, by the likelihood of its uploads",
    source="Neyman and Pearson 1933; rounds and fields jointly, the policy's clip and noise known",
    needs=((SLOPE, HIDDEN, LATENT),),
    assumes="uploads of clients that are single nodes; the models they were sent, or shared first "
    "weights; candidates with the client's row among them; the graph, where the server is given it",
    adversaries=frozenset({"server"}),
    question=CandidateRows,
    floor=0.1,
    expected="the first place without noise; under noise what epsilon leaves of ranks",
    exposes="which entry of a known list a pseudonymous client is, or which ones it is not",
    stopped_by="noise, as far as epsilon says; masks, where no upload is read alone",
    run=candidate_rows,
    rounds=CANDIDATE_ROUNDS,
    applies_to=_can_be_computed,
)


def reidentification(view: View, question: Identify, rng: np.random.Generator) -> Array:
    """Return the candidate whose first latent lies nearest to each user's (N3).

    Every candidate is multiplied by the known first weights and compared with the user's first
    latent.
    """
    from scipy.spatial.distance import cdist  # loaded where it is used

    weights = first_weights(view).double().numpy()
    made = question.candidates @ weights
    made *= clip_factors(made, noise_of(view, LATENT))[:, None]
    distance = cdist(first_latents(view).rows_of(question.ids), made)
    found: Array = distance.argmin(1).astype(np.float64)
    return found


REIDENTIFICATION = Attack(
    name="reidentification",
    summary="which of all candidate rows is a user's, from its first latent",
    source="N3: argmin_c |x_c W_0 - z_0|",
    needs=(LATENT,),
    assumes="the latents of round 1; the shared W_0; a list of candidates with the user in it",
    adversaries=frozenset({"server"}),
    question=Identify,
    floor=0.1,
    expected="near 100 % among 2708 at q = 16",
    exposes="which person of a known list a pseudonymous user is",
    stopped_by="noise on the latents; first weights that are not shared; fewer numbers do not",
    run=reidentification,
    rounds=1,
    applies_to=needs_shared_start,
)


def spanned_records(view: View, question: ListedRecords, rng: np.random.Generator) -> Array:
    """Return which records of a list a client's graph has. The target k n + c is client k and
    record c.

    This is the first step of GRAIN (Drencheva et al. 2025), our own code: a record that a label
    reaches lies in the span of the first layer's change (`models.Moved`), any other with chance
    zero. If a layer has several matrices (own and neighbours' rows), the matrix in whose span the
    most records lie is the one over own rows.
    """
    clients, records = np.divmod(question.ids, len(question.known))
    rows = question.known.astype(np.float64)
    changes = moved_by(view, set(clients.tolist()))
    evidence = np.zeros(len(question.ids))
    for client, parts in changes.items():
        asked = clients == client
        apart = np.stack([part.share_outside(rows[records[asked]]) for part in parts])
        own = apart[(apart < INSIDE_SPAN).sum(1).argmax()]
        # Whatever is not inside is as good as any other: how far it is outside says little.
        evidence[asked] = np.where(own < INSIDE_SPAN, 1 - own, 0)
    return lean_evidence(evidence, question.prior)


SPANNED_RECORDS = Attack(
    name="spanned_records",
    summary="which records of a list a client's graph has, from the span of its first update",
    source="GRAIN, Drencheva et al. 2025, first step; Petrov et al. 2024 for text",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one upload of a client that trains by gradient descent, and a list of records with "
    "the client's among them",
    adversaries=frozenset({"server"}),
    question=ListedRecords,
    floor=0.1,
    expected="exact for every node that a label reaches, for up to as many nodes as units",
    exposes="that a client holds a record of a known list",
    stopped_by="noise on the update; masks over many clients; more nodes than units; Adam",
    run=spanned_records,
    rounds=1,
    applies_to=reads_a_span,
)


ATTACKS = (CANDIDATE_ROWS, REIDENTIFICATION, SPANNED_RECORDS)
