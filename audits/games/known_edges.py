"""Was this edge there, to somebody who knows everything else? Edges, and pairs two steps apart.

Targets are edges that the adversary does not hold, and as many pairs without an edge that have a
neighbour in common, so that being near tells nothing. Prior: chance.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import KnownEdges
from audits.games.base import plays
from audits.games.client_links import LinkGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

OF_EACH, LEAST = 10, 5
Pairs = NDArray[np.int64]


@plays(KnownEdges)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    answers = truth.answers
    if answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    ends = truth.graph.edge_index.numpy()
    edges = np.unique(np.sort(ends.T[ends[0] != ends[1]], 1), axis=0)
    own = [truth.experiment.shards[k].node_ids.numpy() for k in sorted(adversary.clients)]
    known = np.concatenate([*own, np.zeros(0, np.int64)])
    sides = [_unknown(pairs, known, rng) for pairs in (edges, _two_apart(edges, rng))]
    count = min(map(len, sides))
    if count < LEAST:
        raise CannotAttack(f"{count} edges and as many pairs without; {LEAST} are needed")
    pairs = np.concatenate([side[:count] for side in sides])
    so = np.repeat(np.array([1, 0], np.int64), count)
    seen = answers.double().numpy()[pairs].reshape(len(pairs), -1)
    other = np.stack(
        [_turned(truth, pair, bool(is_so)) for pair, is_so in zip(pairs, so, strict=True)]
    )
    without = np.where(so[:, None] == 1, other, seen)
    moves = np.where(so[:, None] == 1, seen - other, other - seen)
    if not np.abs(moves).max() > 1e-9:
        raise CannotAttack("no answer hangs on an edge")
    order = rng.permutation(len(pairs))
    return LinkGame(
        question=KnownEdges(ids=pairs[order], sum_without=without[order], moves=moves[order]),
        metric="AUC over edges and pairs two steps apart, everything else known",
        unit="edge",
        truth=so[order],
    )


def _turned(truth: Truth, pair: Pairs, linked: bool) -> NDArray[np.float64]:
    """The answers at both ends once the edge is taken off, or put in."""
    edges = truth.graph.edge_index
    if linked:
        there = (edges == torch.tensor(pair[:, None])).all(0)
        there |= (edges == torch.tensor(pair[::-1, None].copy())).all(0)
        turned = edges[:, ~there]
    else:
        first, second = pair.tolist()
        both = torch.tensor([[first, second], [second, first]])
        turned = torch.cat([edges, both], 1)
        turned = turned[:, (turned[0] * truth.graph.num_nodes + turned[1]).argsort()]
    found = truth.answers_on_edges(turned)
    assert found is not None
    rows: NDArray[np.float64] = found[torch.tensor(pair)].double().numpy().ravel()
    return rows


def _unknown(pairs: Pairs, known: NDArray[np.int64], rng: np.random.Generator) -> Pairs:
    return rng.permutation(pairs[~np.isin(pairs, known).all(1)])[:OF_EACH]


def _two_apart(edges: Pairs, rng: np.random.Generator) -> Pairs:
    """Pairs with a common neighbour and no edge."""
    both = rng.permutation(np.concatenate([edges, edges[:, ::-1]]))[: 40 * OF_EACH]
    size = int(edges.max(initial=0)) + 1
    order = both[both[:, 0].argsort(kind="stable")]
    follow = order[:, 0][1:] == order[:, 0][:-1]
    found = np.sort(np.stack([order[:-1, 1], order[1:, 1]], 1)[follow], 1)
    found = np.unique(found[found[:, 0] != found[:, 1]], axis=0)
    kept: Pairs = found[~np.isin(found @ [size, 1], edges @ [size, 1])]
    return kept
