"""Games about holders: which nodes one client has."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import HeldNodes, Presence
from audits.games.base import BinaryGame, choose_targets, choose_victim, other_nodes, plays
from audits.replay import public_nodes, public_shard, replay_field
from audits.truth import Truth
from securefg.foundation.streams import derive_seed
from securefg.protocol.meanings import NodeRows
from securefg.protocol.transcript import Adversary

MANY_OF_EACH, LEAST_OF_EACH = 150, 10


@plays(HeldNodes)
def held_nodes(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which nodes a client holds. It holds half of the targets, and somebody holds every
    target.

    The adversary knows the targets' features. Prior: how many clients hold a node, which masked
    runs count before anything else.
    """
    client = choose_victim(truth, adversary)
    own = truth.experiment.shards[client].node_ids.numpy()
    sides = [own, other_nodes(truth, client)]
    count = min(MANY_OF_EACH, *map(len, sides))
    if count < LEAST_OF_EACH:
        raise CannotAttack(
            f"client {client} holds {len(sides[0])} nodes, others {len(sides[1])} more; at least "
            f"{LEAST_OF_EACH} of each are needed"
        )
    ids = np.concatenate([rng.permutation(side)[:count] for side in sides])
    order = rng.permutation(2 * count)
    holders = np.bincount(truth.experiment.partition.nodes.numpy(), minlength=truth.graph.num_nodes)
    ids = ids[order]
    features = truth.features()[ids]
    if features.ndim != 2:  # several samples a node: no row of a node is known
        features = np.zeros((len(ids), 0), np.float32)
    return BinaryGame(
        question=HeldNodes(
            ids=ids,
            client=client,
            known_ids=ids,
            known=features,
        ),
        metric="AUC over nodes that a client holds and others",
        unit="node",
        truth=np.repeat(np.array([1, 0], np.int64), count)[order],
        prior_scores=holders[ids].astype(np.float64),
    )


ROWS = NodeRows(index="public")
NUM_SHADOWS = 32
MANY_TARGETS = 100
LEAST_TARGETS = 10
LEAST_NEIGHBOURS = 2


@plays(Presence)
def presence(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which candidates are private nodes of a client.

    Candidates are the client's private nodes and others'. All have two public neighbours or more,
    and half are the client's, so that chance is the prior: who got which node was drawn without
    regard to the graph.
    """
    client = choose_victim(truth, adversary)
    public = public_nodes(truth).numpy()
    mine = np.setdiff1d(truth.experiment.shards[client].node_ids.numpy(), public)
    held = np.setdiff1d(truth.experiment.partition.nodes.numpy(), public)
    source, target = truth.graph.edge_index.numpy()
    out = np.isin(target, public) & np.isin(source, held)
    links = np.bincount(source[out], minlength=truth.graph.num_nodes)
    able = held[links[held] >= LEAST_NEIGHBOURS]
    sides = [np.intersect1d(able, mine), np.setdiff1d(able, mine)]
    count = min(MANY_TARGETS, *map(len, sides))
    if count < LEAST_TARGETS:
        raise CannotAttack(f"{count} candidates on either side; {LEAST_TARGETS} are needed")
    ids = rng.permutation(np.concatenate([choose_targets(side, count, rng) for side in sides]))
    uploads, member = shadow_clients(truth, ids, len(mine), held)
    return BinaryGame(
        question=Presence(
            ids=ids,
            client=client,
            edges=_to_rows(ids, source[out], np.searchsorted(public, target[out])),
            shadow_uploads=uploads,
            shadow_member=member,
        ),
        metric="AUC over candidate private nodes",
        unit="private node with its edges",
        truth=np.isin(ids, mine).astype(np.int64),
    )


def shadow_clients(
    truth: Truth, ids: NDArray[np.int64], size: int, held: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return shadows' rows of round 1, and who is in which shadow.

    Shadow clients hold the public nodes and as many private nodes as the client: a random half of
    the candidates, and other private nodes for the rest. They train as the method's client does in
    round 1, with seeds of their own. Who is in which shadow is drawn from data alone.
    """
    stream = np.random.default_rng(derive_seed(truth.config.seed, "presence shadows"))
    others = np.setdiff1d(held, ids)
    uploads, member = [], np.zeros((NUM_SHADOWS, len(ids)), bool)
    for shadow in range(NUM_SHADOWS):
        if shadow % 2 == 0:  # the next one takes the other half, so that both sides are as many
            half = stream.permutation(len(ids))[: len(ids) // 2]
            member[shadow, half] = True
        else:
            member[shadow] = ~member[shadow - 1]
        chosen = ids[member[shadow]]
        rest = stream.permutation(others)[: max(0, size - len(chosen))]
        private = torch.from_numpy(np.concatenate([chosen, rest]))
        shard = public_shard(truth, truth.graph, private)
        seed = derive_seed(truth.config.seed, "shadow", shadow)
        uploads.append(replay_field(truth, [shard], ROWS, 1, seed)[0].numpy())
    return np.stack(uploads), member


def _to_rows(
    ids: NDArray[np.int64], source: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return (2, E): from a candidate's place among the targets to a row of the upload."""
    order = np.argsort(ids)
    kept = np.isin(source, ids)
    place = order[np.searchsorted(ids[order], source[kept])]
    return np.stack([place, rows[kept]])
