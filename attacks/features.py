"""Attacks on features from uploads: the words of a client, of a neighbourhood, or of a user."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.evidence import largest_shift, lean_evidence
from attacks.latents import LATENT, first_weights, needs_shared_start
from attacks.models import (
    MODEL,
    client_models,
    decay_cannot_be_followed,
    first_layers,
    layout_of,
    of_form,
    off_the_path,
)
from attacks.questions import (
    ClientInputs,
    ClientWords,
    FirstLatents,
    NeighbourhoodWords,
    NodeFeatures,
)
from attacks.rows import Rows, client_rounds, noise_of, non_negative
from securefg.models.optimizers import Adam
from securefg.protocol.meanings import GraphSums, NodeRows


def vocabulary(view: View, question: ClientWords, rng: np.random.Generator) -> Array:
    """Return which words a client's documents use, from the first layer of its uploaded model (F4).

    A word that occurs nowhere near a training node gets no gradient: its row of W0 moves by weight
    decay alone, along a path that anybody can compute from the model that was sent. A row that left
    that path belongs to a word in use. Melis et al. 2019 do so for the embeddings of a text model.
    """
    models = client_models(view, question.client)
    left = [off_the_path(view, trained.received, trained.moved) for trained in models.values()]
    moved = torch.stack([rows.abs().amax(1) for rows in left if rows is not None])
    noise = view.best_rows(MODEL)[0].noise
    best = moved.amax(0) if noise is None else moved.square().mean(0)
    found: Array = best[torch.from_numpy(question.ids)].double().numpy()
    shift = largest_shift(noise, len(found) ** -0.5, len(moved))
    return lean_evidence(found, question.prior, shift)


def _decay_can_be_followed(view: View) -> str | None:
    layout = layout_of(view)
    if not layout.inputs:
        return "which of the weights multiply features is not known"
    return None if layout.optimizer == "adam" else "where decay alone leads is followed for Adam"


VOCABULARY = Attack(
    name="vocabulary",
    summary="which words a client's documents use, from the rows of W0 that training moved",
    source="F4; Melis et al. 2019 for text models",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one client's uploaded models, and the models it was sent",
    adversaries=frozenset({"server"}),
    question=ClientWords,
    floor=0.05,
    expected="all words within two hops of a (pseudo-)labelled node, none else",
    exposes="which words, codes or products occur at all in a client's records",
    stopped_by="masks, as to which client; noise on the update",
    run=vocabulary,
    rounds=5,
    applies_to=_decay_can_be_followed,
)


def input_support(view: View, question: ClientInputs, rng: np.random.Generator) -> Array:
    """Return (clients, inputs): how far an input's column of the first layer moved in any round.

    An input that is zero in every sample has no gradient: its column of W's change is zero, bit for
    bit, however many samples and steps there are. Melis et al. 2019 read words off text models so.
    """
    moved: dict[int, Array] = {}
    for _, client, weight, _ in first_layers(view):
        moved[client] = np.maximum(moved.get(client, 0.0), np.abs(weight).max(0))
    if missing := [k for k in question.ids.tolist() if k not in moved]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    return np.stack([moved[k] for k in question.ids.tolist()])


INPUT_SUPPORT = Attack(
    name="input_support",
    summary="which inputs a client's samples use, from columns of the first layer that moved",
    source="Melis et al. 2019",
    needs=(MODEL,),
    assumes="one upload of every client",
    adversaries=frozenset({"server"}),
    question=ClientInputs,
    floor=0.1,
    expected="every input, exactly",
    exposes="which words, codes or products occur at all in a client's records",
    stopped_by="masks, as to which client; noise on the update",
    run=input_support,
    rounds=1,
    applies_to=decay_cannot_be_followed,
)


HIDDEN = NodeRows("hidden", "nodes")
HIDDEN_ROUNDS = 20
HIDDEN_PATIENCE = 60
UNSEEN = 1e-3
"""Variance granted to words that the prior does not know."""


def hidden_features(view: View, question: NeighbourhoodWords, rng: np.random.Generator) -> Array:
    """Return the words around each node, from hidden embeddings and the models that made them (F2).

    H = ReLU(S W0) with S = A_hat X, the node's features mixed with its neighbours'. A positive
    entry of H is a linear measurement of the node's row of S. S never changes while W0 does, so
    rounds add measurements until the non-negative sparse row is determined. Derived here.
    """
    client, layout = question.client, layout_of(view)
    models, hidden = client_models(view, client), client_rounds(view, client, HIDDEN)
    rounds = sorted(models.keys() & hidden.keys())[:HIDDEN_ROUNDS]
    if not rounds:
        raise CannotAttack(f"client {client}'s model and embeddings are in no round both readable")
    layers = [layout.part(models[t].uploaded, layout.inputs[0]) for t in rounds]
    design = np.concatenate([layer.double().numpy() for layer in layers], 1).T
    rows = np.concatenate([hidden[t][question.ids].double().numpy() for t in rounds], 1)
    noise = noise_of(view, HIDDEN)
    if noise is not None and question.prior is not None:
        return decoded_neighbourhoods(design, rows, question.prior, noise.sd)
    word_weights = np.zeros((len(rows), design.shape[1]))
    for i, row in enumerate(rows):
        seen = row > 1e-6
        if seen.any():
            word_weights[i] = non_negative(design[seen], row[seen], HIDDEN_PATIENCE)
    return word_weights


def decoded_neighbourhoods(design: Array, rows: Array, prior: Array, noise_sd: float) -> Array:
    """Return p + V D^T (D V D^T + sd^2 I)^-1 (h - D p) with V = p (1 - p), for all rows at once.

    Under noise no search for sparse rows is worth its time, and the prior is what is left.
    """
    share = prior.mean(0)
    spread = (share * (1 - share) + UNSEEN) * design
    gain = np.linalg.solve(spread @ design.T + noise_sd**2 * np.eye(len(design)), spread)
    found: Array = prior + (rows - prior @ design.T) @ gain
    return found


HIDDEN_FEATURES = Attack(
    name="hidden_features",
    summary="the words of a node and its neighbours, from hidden embeddings",
    source="F2: H = ReLU(A_hat X W0), non-negative least squares on the positive entries",
    needs=(HIDDEN, MODEL),
    hears=(MODEL,),
    assumes="one client's hidden embeddings and models over some rounds",
    adversaries=frozenset({"server"}),
    question=NeighbourhoodWords,
    floor=0.2,
    expected="all words of a neighbourhood after 20 rounds on Cora",
    exposes="which words a person or one of its contacts has on record",
    stopped_by="uploading the final layer in place of the hidden one; masks; noise on the rows",
    run=hidden_features,
    rounds=20,
    applies_to=of_form("gcn2"),
)


STILL = 1e-9
"""Far below a step that a gradient makes, and above nothing."""


def averaged_updates(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    """Return how far each word's row of a user's uploaded weights moved (N5).

    A word that a user does not have gets no gradient: its row of W_i moves by weight decay alone,
    along a path that the server computes from the weights it sent. The update of a user of one node
    is x^T g, rank one.
    """
    first_updates = [m for m in view.best_rows(MODEL) if m.round == 1]
    if not first_updates:
        raise CannotAttack("the weights of round 1 are not in the view")
    start = first_weights(view).clone()
    Adam([start], [view.recipe.weight_decay], view.recipe.lr).step([torch.zeros_like(start)])
    ids = np.concatenate([m.clients.numbers() for m in first_updates]).astype(np.int64)
    moved = torch.cat(
        [(m.value.reshape(-1, *start.shape) - start).abs().amax(2) for m in first_updates]
    )
    moves: Array = Rows(ids, moved.double().numpy()).rows_of(question.ids)
    if question.prior is None:
        return moves
    # Whom no gradient reached moved by decay alone: the prior is left, below whatever moved.
    return moves + STILL * question.prior


AVERAGED_UPDATES = Attack(
    name="averaged_updates",
    summary="a user's words, from the rows of its uploaded weights that moved",
    source="N5: dL/dW_i = x_i^T g",
    needs=(LATENT, MODEL),
    assumes="the weights that users upload, and those they were sent",
    adversaries=frozenset({"server"}),
    question=NodeFeatures,
    floor=0.1,
    expected="exact for users whom a gradient reaches: within two hops of a label",
    exposes="what a user's own record says",
    stopped_by="noise on the uploaded weights; masks, so that only the mean of all users is seen",
    run=averaged_updates,
    rounds=1,
    applies_to=needs_shared_start,
)


LATENT_SUMS = GraphSums(of=NodeRows("latent"))
SINGULAR = 1e-9


def linear_exposure(view: View, question: FirstLatents, rng: np.random.Generator) -> Array:
    """Return users' first latents, as far as the opened sums over neighbourhoods give them (G3).

    Masks hide every user's latent z_j and show s_i = sum_j A_hat_ij z_j, which the server needs. It
    knows A_hat, so these are linear equations, and A_hat is nearly invertible for most graphs: the
    least-squares solution of least norm has exactly those z_j for which e_j lies in the row space.
    `audits.exposure` tells without the run which ones are solvable. Bonawitz et al. 2017 open one
    sum per round. Many overlapping sums reveal more.
    """
    if view.public.edge_index is None:
        raise CannotAttack("the graph is not known")
    sums = _opened_sums(view).double().numpy()
    released = np.abs(sums).max(1) > 0
    matrix = _normalised_adjacency(view.public.edge_index, view.public.num_nodes)
    return solved_sums(matrix, sums, released)[question.ids]


def _opened_sums(view: View) -> Tensor:
    opened = view.sums(LATENT_SUMS)
    if opened:
        return opened[0].value
    parts = view.readable(LATENT_SUMS)
    first = [message.value for message in parts if message.round == parts[0].round]
    return torch.cat(first).sum(0)


def _normalised_adjacency(edge_index: Tensor, num_nodes: int) -> sparse.csr_array:
    """Return A_hat in double precision. In single precision it would look easier to invert than it
    is."""
    loops = torch.arange(num_nodes)
    row, column = torch.cat([edge_index.cpu(), loops.expand(2, -1)], 1).numpy()
    sizes = np.bincount(row, minlength=num_nodes).astype(np.float64)
    entries = (1 / np.sqrt(sizes[row] * sizes[column]), (row, column))
    return sparse.csr_array(entries, shape=(num_nodes, num_nodes))


def solved_sums(matrix: sparse.csr_array, sums: Array, released: NDArray[np.bool_]) -> Array:
    """Return the solution of least norm, one connected part of the graph after the other."""
    least_solution = np.zeros_like(sums)
    _, part = connected_components(matrix, directed=False)
    for number in range(int(part.max()) + 1):
        members = np.flatnonzero(part == number)
        rows = members[released[members]]
        if rows.size:
            block = matrix[rows][:, members].toarray()
            least_solution[members] = np.linalg.lstsq(block, sums[rows], rcond=SINGULAR)[0]
    return least_solution


LINEAR_EXPOSURE = Attack(
    name="linear_exposure",
    summary="users' latents, from the sums over neighbourhoods by least squares",
    source="G3: z_j follows from the sums iff e_j lies in their row space",
    needs=(LATENT_SUMS,),
    assumes="the graph, and one round's sums",
    adversaries=frozenset({"server"}),
    question=FirstLatents,
    floor=0.05,
    expected="the share that audits.exposure tells: 88 % of Cora's users if no sum is withheld",
    exposes="the summary of a user, although only sums over neighbourhoods were opened",
    stopped_by="noise; fewer or larger sums; masks do not, since the sums themselves tell",
    run=linear_exposure,
    rounds=1,
)


ATTACKS = (VOCABULARY, INPUT_SUPPORT, HIDDEN_FEATURES, AVERAGED_UPDATES, LINEAR_EXPOSURE)
