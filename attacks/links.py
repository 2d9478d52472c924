"""Attacks on links: from the likeness of rows, from changed queries, and by linear algebra."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.evidence import HEDGED, lean_evidence, pair_shift
from attacks.models import (
    INSIDE_SPAN,
    MODEL,
    SPAN_TRACE,
    Moved,
    client_models,
    layout_of,
    moved_by,
    of_form,
    reads_a_span,
)
from attacks.questions import ClientLinks, OthersLinks, SharedNeighbour, SmallGraphEdges
from attacks.rows import (
    class_shares,
    client_rounds,
    embedding_rows,
    noise_of,
    non_negative,
    pair_cosines,
)
from securefg.models.pseudo_graph import PseudoGraph, project_graph
from securefg.models.sparse import SparseMatrix
from securefg.protocol.meanings import AddedGraph, Answers, NodeRows, Predictions

ROWS = (NodeRows(index="nodes"), Predictions("nodes"))


def similar_links(view: View, question: ClientLinks, rng: np.random.Generator) -> Array:
    """Score every pair by the cosine of its two uploaded rows.

    Linked nodes have embeddings alike. This is the textbook attack on embeddings (He et al.,
    "Stealing Links from Graph Neural Networks", USENIX Security 2021, attack 0). The attack needs
    nothing but the rows, so it serves as the floor for stronger attacks.
    """
    rounds, noise = client_rounds(view, question.client, ROWS), noise_of(view, ROWS)
    # The last rows say most; under noise all say little, and together more.
    chosen = [rounds[max(rounds)]] if noise is None else list(rounds.values())
    rows = torch.cat(chosen, 1).double().numpy()
    shift = pair_shift(noise, chosen[0].shape[1], len(chosen))
    return lean_evidence(pair_cosines(rows, question.ids), question.prior, shift)


SIMILAR_LINKS = Attack(
    name="similar_links",
    summary="a client's edges, from the cosine of uploaded rows",
    source="He et al. 2021, attack 0",
    needs=(ROWS,),
    assumes="one client's uploaded embeddings or predictions",
    adversaries=frozenset({"server"}),
    question=ClientLinks,
    floor=0.1,
    expected="AUC 0.79 on Cora's hidden embeddings",
    exposes="who is connected to whom at one client",
    stopped_by="masks; noise on the rows",
    run=similar_links,
    rounds=5,
)


LATE_ROWS = (NodeRows("final", index="nodes"), Predictions("nodes"))
CUT = 1e-3
"""Directions below this share of the largest singular value are rounding."""
MOST = 8
"""At most one direction per so many nodes: a basis of everything would tell nothing."""


def whitened_links(view: View, question: ClientLinks, rng: np.random.Generator) -> Array:
    """Score every pair by the cosine of its whitened rows of several rounds.

    Every round's rows are A_hat times a matrix that training moved, so rounds differ in the
    direction of the features and agree in that of the graph. Side by side they span the graph.
    Whitening (the left singular vectors with singular values above a share of the largest) gives
    every direction the same weight, and the cosine of two whitened rows is then large if the graph
    joins the two nodes.
    """
    rounds, noise = client_rounds(view, question.client, LATE_ROWS), noise_of(view, LATE_ROWS)
    stacked = np.concatenate([rows.double().numpy() for rows in rounds.values()], 1)
    held = np.abs(stacked).sum(1) > 0
    held &= np.isin(np.arange(len(held)), question.ids)  # rows of others may be noise alone
    if held.sum() < 3:
        raise CannotAttack("fewer than three nodes have rows")
    whitened = np.zeros((len(stacked), min(int(held.sum()), stacked.shape[1])))
    whitened[held] = whiten_rows(stacked[held], noise.sd if noise else 0.0)
    shift = pair_shift(noise, stacked.shape[1] // len(rounds), len(rounds))
    return lean_evidence(pair_cosines(whitened, question.ids), question.prior, shift)


def whiten_rows(rows: Array, noise_sd: float = 0.0) -> Array:
    """Return the first left singular vectors of the centred rows, zero for the other directions.

    Noise alone has singular values up to sd (sqrt(n) + sqrt(m)). Directions below that edge are
    noise, and directions above it contain noise, so each counts by the part that is left.
    """
    left, size, _ = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    edge = noise_sd * sum(np.sqrt(rows.shape))
    number = np.arange(len(size))
    count = ((size > CUT * size[0]) & (number < max(1, len(rows) // MOST))).astype(float)
    left_over = np.sqrt(np.maximum(0, 1 - (edge / np.maximum(size, 1e-300)) ** 2))
    kept: Array = left * count * left_over
    return kept if kept.any() else left * (number == 0)


WHITENED_LINKS = Attack(
    name="whitened_links",
    summary="a client's edges, from uploaded rows of several rounds, stacked and whitened",
    source="rows of all rounds span the graph's directions; whitening weighs them alike",
    needs=(LATE_ROWS,),
    assumes="one client's uploaded embeddings or predictions of several rounds",
    adversaries=frozenset({"server"}),
    question=ClientLinks,
    floor=0.1,
    expected="AUC 0.999 on Cora's final-layer embeddings, where the last round's cosine has 0.986",
    exposes="who is connected to whom at one client",
    stopped_by="masks; noise on the rows; fewer rounds",
    run=whitened_links,
    rounds=10,
)


PUBLIC_ROWS = NodeRows(index="public")


def shared_neighbour(view: View, question: SharedNeighbour, rng: np.random.Generator) -> Array:
    """Score pairs of rows of the upload by their mean cosine over all rounds.

    Skip-gram puts nodes together that walks see together, and attention mixes the rows around a
    node. A private node between two public nodes pulls their rows together, although they are not
    linked. The control is the cosine after the same training on the public nodes alone. Walks are
    drawn anew in each round, so the mean over rounds tells more than any single round. The attack
    was derived here. He et al. 2021 do so for links.
    """
    rounds = embedding_rows(view, question.client, PUBLIC_ROWS)
    mean: Array = np.mean([pair_cosines(rows, question.ids) for rows in rounds.values()], axis=0)
    width = next(iter(rounds.values())).shape[1]
    shift = pair_shift(noise_of(view, PUBLIC_ROWS), width, len(rounds))
    return lean_evidence(mean, question.prior, shift)


SHARED_NEIGHBOUR = Attack(
    name="shared_neighbour",
    summary="which public nodes share a private neighbour, from the cosine of uploaded rows",
    source="P1; the idea of He et al. 2021, attack 0, for nodes between public ones",
    needs=(PUBLIC_ROWS,),
    assumes="one client's uploaded rows; which rows are the public nodes'",
    adversaries=frozenset({"server"}),
    question=SharedNeighbour,
    floor=0.05,
    expected="Cora: AUC 0.98 for walks, where public nodes alone give 0.68; GAT 0.88 and 0.79",
    exposes="that two known persons share a contact whom only one client knows",
    stopped_by="masks; noise on the rows",
    run=shared_neighbour,
    rounds=10,
)


DELTA = 0.01


def influence_links(view: View, question: OthersLinks, rng: np.random.Generator) -> Array:
    """Score pairs of an own node and another's node by how far a change of the one moves the other.

    LinkTeller (Wu et al., IEEE S&P 2022): in a graph convolution the answer for u depends on the
    features of v only if u is within reach of v, and most if they are linked. A client that may
    query the released model multiplies the features of one of its nodes by 1 + DELTA, asks again,
    and scores every other node by how far its answer moved. It finds edges of shared nodes that
    only other clients hold.
    """
    if view.query is None or view.answers is None:
        raise CannotAttack("the released model cannot be queried from here")
    rows = _own_rows(view)
    scores = np.zeros(len(question.ids))
    for node in np.unique(question.ids[:, 0]).tolist():
        if node not in rows:
            raise CannotAttack(f"node {node} is not the adversary's own: it cannot change it")
        changed = view.query(torch.tensor([node]), (1 + DELTA) * rows[node][None])
        moved = (changed - view.answers).double().norm(dim=1).numpy()
        asked = question.ids[:, 0] == node
        scores[asked] = moved[question.ids[asked, 1]] / DELTA
    return scores


def _own_rows(view: View) -> dict[int, Tensor]:
    found: dict[int, Tensor] = {}
    for shard in view.own:
        found |= dict(zip(shard.node_ids.tolist(), shard.graph.features, strict=True))
    return found


INFLUENCE_LINKS = Attack(
    name="influence_links",
    summary="edges of shared nodes that others hold, from how a change of features moves answers",
    source="LinkTeller, Wu et al. 2022",
    needs=(Answers(),),
    assumes="queries of the released model on all nodes, with the client's own features changed",
    adversaries=frozenset({"client"}),
    question=OthersLinks,
    floor=0.1,
    expected="AUC 0.99: two layers reach two hops, and one hop weighs most",
    exposes="that a person known to one client is connected to a person at another",
    stopped_by=(
        "not answering for other clients' nodes; noise on the edges; noise on uploads does not"
    ),
    run=influence_links,
    rounds=10,
)


HIDDEN = NodeRows("hidden", "nodes")
JITTER = 1e-4
RIDGE = 1.0
EQUATIONS = 64
"""Per row: a round gives one fewer than there are classes. More cost time and add little."""


def adjacency_nnls(view: View, question: ClientLinks, rng: np.random.Generator) -> Array:
    """Score pairs by the rows of A_hat that solve the last layer's linear equations.

    The last layer of a GCN is linear: log P, centred over the classes, equals A_hat (H W1),
    centred. P and H are uploaded and W1 is in the uploaded model, so A_hat is the only unknown.
    A_hat is the same in every round, so rounds are stacked, and every row of A_hat solves a
    non-negative least-squares problem. The server sent the part that a pseudo graph adds to A_hat,
    and this part is subtracted first. The attack was derived here and is not published elsewhere.
    """
    nodes, design, wanted = stack_equations(view, question.client)
    noise = noise_of(view, HIDDEN)
    place = np.full(view.public.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    first, second = place[question.ids].T
    known = (first >= 0) & (second >= 0)
    if noise is None:
        design = design + JITTER * design.std() * rng.standard_normal(design.shape)
        rows = np.zeros((len(nodes), len(nodes)))
        for asked in np.unique([first[known], second[known]]).tolist():
            rows[asked] = non_negative(design, wanted[asked])
    else:
        rows = ridge_rows(design, wanted)
    found = np.where(known, rows[first, second] + rows[second, first], 0.0)
    width = view.public.num_classes - 1
    shift = pair_shift(noise, width, max(1, len(design) // width))
    return lean_evidence(found, question.prior, shift if noise is None else min(shift, HEDGED))


def ridge_rows(design: Array, wanted: Array) -> Array:
    """Return D^T (D D^T + r)^-1 w for all rows at once.

    With noise on both sides, a search for sparse non-negative rows takes minutes and finds no more.
    """
    gram = design @ design.T
    ridge = RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
    found: Array = np.linalg.solve(gram + ridge, wanted.T).T @ design
    return found


def stack_equations(view: View, client: int) -> tuple[np.ndarray, Array, Array]:
    """Return the client's n nodes, the stacked design (rounds * classes, n), the right sides."""
    layout, models = layout_of(view), client_models(view, client)
    predictions = class_shares(view, client)
    hidden = client_rounds(view, client, HIDDEN)
    assert layout.output is not None
    enough = -(-EQUATIONS // (view.public.num_classes - 1))
    rounds = sorted(models.keys() & predictions.keys() & hidden.keys())[:enough]
    if not rounds:
        raise CannotAttack(f"no round in which client {client}'s model and rows are both readable")
    nodes = predictions[rounds[0]].abs().sum(1).nonzero().flatten()
    told = predictions[rounds[0]].shape[1]  # of sums under noise the last class stays left out
    design, wanted = [], []
    for number in rounds:
        last = layout.part(models[number].uploaded, layout.output)[:, :told]
        mixed = hidden[number][nodes] @ last
        logits = predictions[number][nodes].clamp_min(1e-12).log()
        pseudo = _pseudo_operator(view, number, nodes)
        design.append(_centre_rows(mixed).T)
        wanted.append(_centre_rows(logits) - _centre_rows(pseudo @ mixed if pseudo else 0 * mixed))
    return (
        nodes.numpy(),
        torch.cat(design).double().numpy(),
        torch.cat(wanted, 1).double().numpy(),
    )


def _pseudo_operator(view: View, number: int, nodes: Tensor) -> SparseMatrix | None:
    """Return the operator that the server added to the client's own in that round."""
    parts, meaning = [], AddedGraph()
    for need in (AddedGraph("counts"), AddedGraph("columns"), AddedGraph("values")):
        sent = [m for m in view.downloads(need) if m.round == number]
        if not sent or not isinstance(sent[0].meaning, AddedGraph):
            return None
        meaning = sent[0].meaning
        parts.append(sent[0].value)
    assert meaning.scale is not None
    assert meaning.degree is not None
    return project_graph(PseudoGraph(*parts), nodes, meaning.scale, meaning.degree)


def _centre_rows(rows: Tensor) -> Tensor:
    return rows - rows.mean(1, keepdim=True)


ADJACENCY_NNLS = Attack(
    name="adjacency_nnls",
    summary="a client's edges, from its predictions, hidden embeddings and model",
    source="F1: centred log P = A_hat (H W1), stacked over rounds, NNLS per row",
    needs=(HIDDEN, Predictions("nodes"), MODEL),
    hears=(MODEL,),
    assumes="the uploads of one client over some rounds, hidden embeddings among them",
    adversaries=frozenset({"server"}),
    question=ClientLinks,
    floor=0.3,
    expected="AUC and precision 1.00 after 10 rounds on Cora, where cosine gets 0.79 and 0.13",
    exposes="who is connected to whom at one client",
    stopped_by="uploading the final layer in place of the hidden one; masks; noise on the rows",
    run=adjacency_nnls,
    rounds=40,
    applies_to=of_form("gcn2"),
)


DECIMALS = 3


def inverted_edges(view: View, question: SmallGraphEdges, rng: np.random.Generator) -> Array:
    """Score pairs by three systems of linear equations on the first layer's change.

    GraphSAGE's first layer is ReLU(W_l m_v + W_r x_v) with m_v the mean of v's neighbours. Both
    matrices move by the same errors d_v behind them, summed over all local steps: W_r by D^T X, W_l
    by D^T M. With the records X known (the attack spanned_records finds them), D follows from the
    first, M from the second, and P from M = P X: P_vu is one over v's degree if u is its neighbour,
    and zero otherwise. GRAIN (Drencheva et al. 2025) searches neighbourhoods by consistency. Here
    they are solved for. A layer of one matrix over A X (GCN) has A and D in one product, and is not
    solved.
    """
    parts = moved_by(view, {question.client})[question.client]
    weight = solve_neighbours(parts, question.known.astype(np.float64))
    place = np.searchsorted(question.known_ids, question.ids)
    both: Array = np.maximum(weight[place[:, 0], place[:, 1]], weight[place[:, 1], place[:, 0]])
    rounded: Array = np.round(both, DECIMALS).astype(np.float64)
    return lean_evidence(rounded, question.prior)


def solve_neighbours(parts: list[Moved], rows: Array) -> Array:
    """Return P (n, n), with rows of zeros for nodes of which the change tells nothing."""
    neighbour_shares = np.zeros((len(rows), len(rows)))
    outside = [part.share_outside(rows) for part in parts]
    own_part = int(np.argmax([(apart < INSIDE_SPAN).sum() for apart in outside]))
    reached = outside[own_part] < INSIDE_SPAN
    if not reached.any():
        return neighbour_shares
    errors = _solve_system(rows[reached].T, parts[own_part].change.T)
    means = _solve_system(errors.T, parts[1 - own_part].change)
    # What lies outside the records' span was no mean of them: such a node's errors were too small.
    shares = _solve_system(rows.T, means.T).T
    left = np.linalg.norm(shares @ rows - means, axis=1)
    sure = left < INSIDE_SPAN * np.linalg.norm(means, axis=1)
    neighbour_shares[reached] = np.where(sure[:, None], shares, 0).clip(0, 1)
    return neighbour_shares


def _solve_system(matrix: Array, right: Array) -> Array:
    found: Array = np.asarray(np.linalg.lstsq(matrix, right, rcond=SPAN_TRACE)[0], np.float64)
    return found


def _own_and_neighbours(view: View) -> str | None:
    matrices = len(layout_of(view).inputs)
    if matrices != 2:
        return (
            f"the first layer has {matrices} matrices over features; where own and neighbours' "
            "rows have one each, edges can be solved for"
        )
    return reads_a_span(view)


INVERTED_EDGES = Attack(
    name="inverted_edges",
    summary="a client's edges, solved for from the change of its first layer",
    source="derived here; GRAIN, Drencheva et al. 2025, for the search that it replaces",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one upload of a client that trains a GraphSAGE by gradient descent, and its records",
    adversaries=frozenset({"server"}),
    question=SmallGraphEdges,
    floor=0.1,
    expected="every edge at a node that a label reaches, exactly; no other",
    exposes="who is connected to whom at one client, from a single update and no embedding",
    stopped_by="noise on the update; masks over many clients; more nodes than units; Adam",
    run=inverted_edges,
    rounds=1,
    applies_to=_own_and_neighbours,
)


ATTACKS = (
    SIMILAR_LINKS,
    WHITENED_LINKS,
    SHARED_NEIGHBOUR,
    INFLUENCE_LINKS,
    ADJACENCY_NNLS,
    INVERTED_EDGES,
)
