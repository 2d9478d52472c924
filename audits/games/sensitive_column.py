"""Is a person's sensitive number above the median? The column is named in `audit.sensitive`.

The adversary knows the column of some other nodes: of its own, where it is a client, else of a
random third. Prior: chance, since without the run nothing tells the targets apart.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import SensitiveColumn
from audits.games.base import BinaryGame, NotAsked, plays, victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

KNOWN_SHARE, MANY_KNOWN, MANY_TARGETS, LEAST_OF_EACH = 0.3, 800, 300, 10


@plays(SensitiveColumn)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    column = truth.config.audit.sensitive
    if column is None:
        raise NotAsked("no sensitive column is named (audit.sensitive)")
    if truth.graph.features.dim() != 2 or column >= truth.graph.num_features:
        found = f"{truth.graph.num_features} columns of one row per node"
        raise CannotAttack(f"audit.sensitive is {column}; the features have {found}")
    values = truth.features()[:, column]
    client, known, others = _populations(truth, adversary, rng)
    high = values > np.median(values)
    if min(high[others].sum(), (~high[others]).sum()) < LEAST_OF_EACH:
        raise CannotAttack(
            f"column {column} is above its median for {high[others].sum()} of {len(others)} nodes; "
            f"at least {LEAST_OF_EACH} above it and not are needed"
        )
    wanted = rng.permutation(others)[:MANY_TARGETS]
    return BinaryGame(
        question=SensitiveColumn(
            ids=wanted,
            client=client,
            known_ids=known,
            known=high[known].astype(np.float32)[:, None],
        ),
        metric=f"AUC over nodes whose column {column} is above the median and others",
        unit="row",
        truth=high[wanted].astype(np.int64),
    )


def _populations(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> tuple[int | None, NDArray[np.int64], NDArray[np.int64]]:
    """Whose rows are read, the nodes that are known, and those that are not."""
    x = truth.experiment
    held = np.unique(x.partition.nodes.numpy())
    if adversary.clients:
        own = torch.cat([x.shards[k].node_ids for k in sorted(adversary.clients)]).numpy()
        if len(own) >= LEAST_OF_EACH:
            return None, rng.permutation(own)[:MANY_KNOWN], np.setdiff1d(held, own)
        held = np.setdiff1d(held, own)  # clients of one node each: it knows some from elsewhere
    client = None
    if adversary.kind == "server" and int(x.partition.sizes.max()) > 1:
        client = victim(truth, adversary)
        held = x.shards[client].node_ids.numpy()
    mixed = rng.permutation(held)
    count = min(MANY_KNOWN, int(KNOWN_SHARE * len(mixed)))
    return client, mixed[:count], mixed[count:]
