"""What nodes and edges of the run's own data move, beside what the method declared that they move.

Noise is sized for the distance that a method declares, and no noise shows whether the declaration
holds. So the method's own hosts are asked once more, as in round 1, without a node or without an
edge: one that moves its holder's message further than declared refutes the claim. That none does
proves nothing about other data; the method's page has the proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from attacks.base import CannotAttack
from audits.replay import replying
from audits.truth import Truth
from securefg.data.graph import undirected
from securefg.data.shard import Shard
from securefg.foundation.streams import numpy_stream
from securefg.privacy.policy import PlannedRelease
from securefg.run.findings import Finding, Verdict

ATTACK = "declared_influence"
EACH = 12
"""So many nodes with the most links, and so many others, are removed; and so many edges."""

FLOAT_ERROR = 1e-6
"""Of a message's length: what rounding of floats may add."""


@dataclass(frozen=True)
class Removal:
    """One node or edge less at one of its holders, and by how much the declaration lets it move."""

    unit: Literal["node", "edge"]
    shard: Shard
    rest: Shard
    links: int


@dataclass
class Furthest:
    """The largest distance so far, over the declared one."""

    share: float = 0.0
    words: str = ""
    count: int = 0

    def take(self, distance: float, allowed: float, slack: float, words: str) -> None:
        self.count += 1
        share = max(0.0, distance - slack) / allowed if allowed else float(distance > slack) * 1e9
        if share >= self.share:
            self.share, self.words = share, words


def influences(truth: Truth, seed: int) -> list[Finding]:
    """A finding for nodes and one for edges, where the method declares what they move."""
    declared = _declared(truth)
    if not declared:
        return []
    started, found = time.monotonic(), {"node": Furthest(), "edge": Furthest()}
    try:
        for removal in _removals(truth, seed):
            _measure(removal, declared, _sent(truth), found[removal.unit])
    except CannotAttack as error:
        return [_finding(truth, unit, None, str(error), 0.0) for unit in found]
    each = (time.monotonic() - started) / 2
    return [_finding(truth, unit, furthest, "", each) for unit, furthest in found.items()]


def _declared(truth: Truth) -> dict[tuple[str, str], PlannedRelease]:
    x = truth.experiment
    planned = x.method.releases(x.config.method, x.config.training, x.public)
    return {(r.message.kind, r.field): r for r in planned if r.node.moved is not None}


def _sent(truth: Truth) -> Callable[[Shard], dict[tuple[str, str], Tensor]]:
    replies = replying(truth)
    return lambda shard: {(m.kind, name): value.double() for m, name, value in replies(shard)}


def _measure(
    removal: Removal,
    declared: dict[tuple[str, str], PlannedRelease],
    sent: Callable[[Shard], dict[tuple[str, str], Tensor]],
    furthest: Furthest,
) -> None:
    before, after = sent(removal.shard), sent(removal.rest)
    for key, release in declared.items():
        influence = release.node if removal.unit == "node" else release.edge
        if key not in before or (influence.moved is None and influence.rows != 0):
            continue
        allowed = influence.moved(removal.links) if influence.moved is not None else 0.0
        distance = float((before[key] - after[key]).norm())
        slack = FLOAT_ERROR * (1 + float(before[key].norm()))
        words = f"{distance:.4g} of {allowed:.4g} declared in {release.name}"
        if removal.unit == "node":
            words += f" for {removal.links} links"
        furthest.take(distance, allowed, slack, words)


# ------------------------------------------------------------------------------- what is removed


def _removals(truth: Truth, seed: int) -> Iterator[Removal]:
    """Nodes with the most links and nodes at random, edges at random; each at one holder."""
    rng = numpy_stream(seed, "declared influence")
    shards = [shard for shard in truth.experiment.shards if shard.graph.num_nodes > 1]
    if not shards:
        return
    chosen = [shards[i] for i in rng.choice(len(shards), min(EACH, len(shards)), replace=False)]
    per = -(-EACH // len(chosen))
    for shard in chosen:
        links = _links(shard)
        most = np.argsort(-links, kind="stable")[:per]
        others = rng.choice(len(links), min(per, len(links)), replace=False)
        for node in dict.fromkeys([*most.tolist(), *others.tolist()]):
            yield Removal("node", shard, _without_node(shard, node), int(links[node]))
        edges = shard.graph.edge_index.shape[1]
        for edge in rng.choice(edges, min(per, edges), replace=False) if edges else ():
            yield Removal("edge", shard, _without_edge(shard, int(edge)), 0)


def _links(shard: Shard) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    graph = shard.graph
    source, target = undirected(graph.edge_index, graph.num_nodes)
    return torch.bincount(source[source != target], minlength=graph.num_nodes).numpy()


def _without_node(shard: Shard, node: int) -> Shard:
    kept = torch.arange(shard.graph.num_nodes) != node
    rest = shard.graph.subgraph(kept.nonzero().flatten())
    return replace(shard, node_ids=shard.node_ids[kept], graph=rest)


def _without_edge(shard: Shard, edge: int) -> Shard:
    index = shard.graph.edge_index
    u, v = index[:, edge].tolist()
    gone = ((index[0] == u) & (index[1] == v)) | ((index[0] == v) & (index[1] == u))
    return replace(shard, graph=replace(shard.graph, edge_index=index[:, ~gone]))


def _finding(
    truth: Truth, unit: str, furthest: Furthest | None, reason: str, seconds: float
) -> Finding:
    verdict, because = Verdict.INCONCLUSIVE, f"nothing could be asked again: {reason}"
    if furthest is not None and not furthest.count:
        because = f"no {unit} could be removed"
    elif furthest is not None:
        verdict = Verdict.VIOLATION if furthest.share > 1 else Verdict.NOT_DETECTED
        because = f"of {furthest.count} removals the furthest moved {furthest.words}"
    return Finding(
        adversary="-",
        attack=ATTACK,
        method=truth.experiment.method.name,
        metric=f"distance that a {unit} moves, over the declared one",
        unit=unit,
        verdict=verdict,
        because=because,
        targets=0 if furthest is None else furthest.count,
        details={} if furthest is None else {"share_of_declared": round(furthest.share, 4)},
        assumptions=("the run's own data; other data may move further",),
        seconds=round(seconds, 3),
    )
