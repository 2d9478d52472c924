"""Attacks on declared sensitivities: how far nodes and edges move messages, beside the declaration.

Noise is sized for the distance that a method declares, and no noise shows whether the declaration
holds. The declaration is therefore attacked: hostile persons are put into the run's own shards
(`audits.hostile`), and the method's own hosts are asked, as in round 1, with each of them and
without. Then real nodes and edges are removed: some of every kind, and after them all nodes of one
silo after the other, the smallest first, as long as time allows. A node or edge that moves its
holder's message further than declared refutes the claim. That none does proves nothing: the
method's page has the proof.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from attacks.base import CannotAttack
from audits.findings.record import Finding, Verdict
from audits.hostile import Hostile, first_tries, further_tries
from audits.replay import make_replier
from audits.truth import Truth
from securefg.data.graph import undirected
from securefg.data.shard import Shard
from securefg.foundation.streams import numpy_stream
from securefg.privacy.releases import PlannedRelease

ATTACK = "declared_influence"
EACH = 12
"""So many nodes with the most links, and so many others, are removed; and so many edges."""

FLOAT_ERROR = 1e-6
"""Of a message's length: what rounding of floats may add."""

SECONDS = 1.0
"""So long real nodes are removed beside the first ones; a thorough audit takes longer."""
THOROUGH_SECONDS = 300.0
BASE = 8
"""Hostile persons are put into so many nodes of a shard: each try then costs little."""

Key = tuple[str, str]
Sent = Callable[[Shard], dict[Key, Tensor]]


@dataclass(frozen=True)
class Removal:
    """A removal of one node or edge at one of its holders, with the distance that the declaration
    allows."""

    unit: Literal["node", "edge"]
    shard: Shard
    rest: Shard
    links: int
    kind: str = ""

    @property
    def gone(self) -> int | None:
        """The number of the node that is removed; None for an edge."""
        gone = set(self.shard.node_ids.tolist()) - set(self.rest.node_ids.tolist())
        return gone.pop() if gone else None


@dataclass
class Furthest:
    """A record of the largest distance so far, over the declared one."""

    share: float = 0.0
    words: str = ""
    count: int = 0

    def take_case(self, distance: float, allowed: float, slack: float, words: str) -> float:
        """Keep the case if it is the worst. Return its share of the declared distance."""
        self.count += 1
        share = max(0.0, distance - slack) / allowed if allowed else float(distance > slack) * 1e9
        if not math.isfinite(distance):  # what is no number is as far away as can be
            share = 1e9
        if share >= self.share:
            self.share, self.words = share, words
        return share


class Measuring:
    """A measurement that asks hosts and keeps, by unit and release, what moved furthest.

    index_size  more nodes than this cannot be put in, where messages have a row per node
    """

    def __init__(
        self, declared: dict[Key, PlannedRelease], sent: Sent, num_nodes: int | None
    ) -> None:
        self.declared, self._sent = declared, sent
        by_row = any(release.node.own_row is not None for release in declared.values())
        self.index_size = (num_nodes or 0) if by_row else math.inf
        self.found = {(unit, key): Furthest() for unit in ("node", "edge") for key in declared}
        self._before: tuple[Shard, dict[Key, Tensor]] | None = None

    def measure(self, removal: Removal) -> dict[Key, float]:
        """Measure a removal and return its share of the declared distance, by release."""
        if self._before is None or self._before[0] is not removal.shard:
            self._before = removal.shard, self._sent(removal.shard)
        before, after = self._before[1], self._sent(removal.rest)
        shares = {}
        for key, release in self.declared.items():
            influence = release.node if removal.unit == "node" else release.edge
            if key not in before or (influence.moved is None and influence.rows != 0):
                continue
            allowed = influence.moved(removal.links) if influence.moved is not None else 0.0
            moved = before[key] - after[key]
            if influence.own_row is not None and removal.gone is not None:
                moved = moved.reshape(-1, influence.own_row).clone()
                moved[removal.gone] = 0.0
            distance = float(moved.norm())
            slack = FLOAT_ERROR * (1 + float(before[key].norm()))
            words = f"{distance:.4g} of {allowed:.4g} declared"
            if removal.unit == "node":
                words += f" for {removal.links} links"
            words += f" ({removal.kind})" if removal.kind else ""
            furthest = self.found[removal.unit, key]
            shares[key] = furthest.take_case(distance, allowed, slack, words)
        return shares


def audit_influences(truth: Truth, seed: int, thorough: bool = False) -> list[Finding]:
    """Return a finding per release for nodes and for edges, if the method declares what they
    move."""
    declared = _declared_releases(truth)
    if not declared:
        return []
    started, rng = time.monotonic(), numpy_stream(seed, "declared influence")
    measuring = Measuring(declared, _sender_of(truth), truth.experiment.public.num_nodes)
    try:
        _attack_persons(truth, measuring, rng)
        for removal in _draw_removals(truth, rng):
            measuring.measure(removal)
        _remove_all(truth, measuring, _seconds_allowed(truth, thorough))
    except CannotAttack as error:
        reason = str(error)
        return [
            _make_finding(truth, unit, r, None, reason, 0.0)
            for unit, r in _releases_with_units(declared)
        ]
    each = (time.monotonic() - started) / len(measuring.found)
    return [
        _make_finding(truth, unit, release, measuring.found[unit, key], "", each)
        for unit, release in _releases_with_units(declared)
        for key in [(release.message.kind, release.field)]
    ]


def _releases_with_units(declared: dict[Key, PlannedRelease]) -> list[tuple[str, PlannedRelease]]:
    """Return every release with the units of which the method declares what they move."""
    nodes = [("node", release) for release in declared.values()]
    edges = [("edge", r) for r in declared.values() if r.edge.moved is not None or r.edge.rows == 0]
    return nodes + edges


def _seconds_allowed(truth: Truth, thorough: bool) -> float:
    wanted, limit = THOROUGH_SECONDS if thorough else SECONDS, truth.config.audit.attack_seconds
    return wanted if limit is None else min(wanted, limit / 4)


def _declared_releases(truth: Truth) -> dict[tuple[str, str], PlannedRelease]:
    x = truth.experiment
    planned = x.method.releases(x.config.method, x.config.training, x.public)
    return {(r.message.kind, r.field): r for r in planned if r.node.moved is not None}


def _sender_of(truth: Truth) -> Callable[[Shard], dict[tuple[str, str], Tensor]]:
    replies = make_replier(truth)
    return lambda shard: {(m.kind, name): value.double() for m, name, value in replies(shard)}


# ------------------------------------------------------------------------------- what is put in


def _attack_persons(truth: Truth, measuring: Measuring, rng: np.random.Generator) -> None:
    """Measure hostile persons and, for every release, variants of the person that moved it
    furthest."""
    shards = [s for s in truth.experiment.shards if s.graph.num_nodes > 1]
    if not shards:
        return
    base = _some_of(shards[int(rng.integers(len(shards)))])
    for key, release in measuring.declared.items():
        links = release.node.links
        best: tuple[float, Hostile | None] = (-1.0, None)
        for hostile in first_tries(base, links, rng):
            share = _try_removals(hostile, base, measuring).get(key, 0.0)
            best = max(best, (share, hostile), key=lambda pair: pair[0])
        if best[1] is not None:
            for hostile in further_tries(best[1], base, links):
                _try_removals(hostile, base, measuring)


def _try_removals(hostile: Hostile, base: Shard, measuring: Measuring) -> dict[Key, float]:
    """Remove the person, and one of its links."""
    shard, person = hostile.put_into(base)
    if int(shard.node_ids.max()) >= measuring.index_size:
        return {}
    links = int(_count_links(shard)[person])
    rest = _without_node(shard, person)
    shares = measuring.measure(Removal("node", shard, rest, links, hostile.words))
    own = (shard.graph.edge_index[0] == person).nonzero().flatten()
    if len(own):
        rest = _without_edge(shard, int(own[0]))
        measuring.measure(Removal("edge", shard, rest, 0, f"a link of {hostile.words}"))
    return shares


def _some_of(shard: Shard) -> Shard:
    """Return a shard of the nodes with the most links."""
    chosen = (
        torch.from_numpy(np.argsort(-_count_links(shard), kind="stable")[:BASE].copy())
        .sort()
        .values
    )
    return replace(shard, node_ids=shard.node_ids[chosen], graph=shard.graph.subgraph(chosen))


# ------------------------------------------------------------------------------- what is removed


def _draw_removals(truth: Truth, rng: np.random.Generator) -> Iterator[Removal]:
    """Yield removals of nodes with the most links, of nodes at random and of edges at random, each
    at one holder.

    A client with a single node stays, so the node's features alone are removed.
    """
    shards = [shard for shard in truth.experiment.shards if shard.graph.num_nodes > 1]
    if not shards:
        yield from _empty_nodes(truth, rng)
        return
    chosen = [shards[i] for i in rng.choice(len(shards), min(EACH, len(shards)), replace=False)]
    per = -(-EACH // len(chosen))
    for shard in chosen:
        links = _count_links(shard)
        most = np.argsort(-links, kind="stable")[:per]
        others = rng.choice(len(links), min(per, len(links)), replace=False)
        for node in dict.fromkeys([*most.tolist(), *others.tolist()]):
            yield Removal("node", shard, _without_node(shard, node), int(links[node]))
        edges = shard.graph.edge_index.shape[1]
        for edge in rng.choice(edges, min(per, edges), replace=False) if edges else ():
            yield Removal("edge", shard, _without_edge(shard, int(edge)), 0)


def _empty_nodes(truth: Truth, rng: np.random.Generator) -> Iterator[Removal]:
    """Return single nodes whose features are removed: real ones, and hostile ones of any length."""
    every = truth.experiment.shards
    for place in rng.choice(len(every), min(2 * EACH, len(every)), replace=False).tolist():
        shard, features = every[place], every[place].graph.features
        rest = _with_features(shard, torch.zeros_like(features))
        yield Removal("node", shard, rest, 0)
        for words, hostile in {
            "features times 1e6": features * 1e6,
            "negative features": -features - 1,
            "equal features": torch.ones_like(features),
        }.items():
            yield Removal("node", _with_features(shard, hostile), rest, 0, words)


def _with_features(shard: Shard, features: Tensor) -> Shard:
    return replace(shard, graph=replace(shard.graph, features=features))


def _remove_all(truth: Truth, measuring: Measuring, seconds: float) -> None:
    """Remove all nodes of one silo after the other, the smallest silo first. A method that counts
    too often in every silo is thus found in the first."""
    deadline = time.process_time() + seconds
    sizes = truth.experiment.partition.sizes
    for place in sizes.argsort(stable=True).tolist():
        if sizes[place] < 2:
            continue
        shard = truth.experiment.shards[place]
        links = _count_links(shard)
        for node in range(shard.graph.num_nodes):
            if time.process_time() > deadline:
                return
            rest = _without_node(shard, node)
            measuring.measure(Removal("node", shard, rest, int(links[node])))


def _count_links(shard: Shard) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
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
    return replace(shard, graph=shard.graph.keep_edges(~gone))


def _make_finding(
    truth: Truth,
    unit: str,
    release: PlannedRelease,
    furthest: Furthest | None,
    reason: str,
    seconds: float,
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
        metric=f"distance that a {unit} moves {release.name}, over the declared one",
        unit=unit,
        verdict=verdict,
        because=f"{release.name}: {because}",
        targets=0 if furthest is None else furthest.count,
        details={} if furthest is None else {"share_of_declared": round(furthest.share, 4)},
        assumptions=("hostile persons and the run's own data; other data may move further",),
        seconds=round(seconds, 3),
    )
