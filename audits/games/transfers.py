"""Games about the amount and day of a transfer: which of two records does a link carry?

The client's own host is asked again, once with each record. A record is the row of numbers of an
edge. In sums over links it is part of both ends' features too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Tensor

from attacks.base import CannotAttack
from attacks.questions import SummedTransfers, SumQuestion, UpdatedTransfers
from attacks.transfers import READS_EDGES, SUMS_OVER_LINKS
from audits.games.base import BinaryGame, plays
from audits.games.shared_noise import shared_sd
from audits.games.sums import (
    LEAST_TARGETS,
    BothShards,
    SumGame,
    affordable_targets,
    form_of_moves,
    meaning_width,
    sums_with_and_without,
)
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Meaning
from securefg.protocol.transcript import Adversary

MANY_LINKS = 300
Link = tuple[Shard, int]
"""A shard, and the number of an edge in it."""


@plays(SummedTransfers, closed_form=True)
def summed_transfers(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which of two records a link carries, in sums over links. Prior: chance."""
    columns = getattr(truth.config.method, "link_columns", 0)
    return known_transfers(SummedTransfers, truth, SUMS_OVER_LINKS, columns, adversary, rng)


@plays(UpdatedTransfers, closed_form=True)
def updated_transfers(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which of two records a link carries, in the first update of a network. Prior: chance."""
    if getattr(truth.config.method, "weighting", None) == "nodes":
        raise CannotAttack("updates are weighed by sizes, which the sum multiplies them with")
    return known_transfers(UpdatedTransfers, truth, READS_EDGES, 0, adversary, rng)


def known_transfers(
    asked: type[SumQuestion],
    truth: Truth,
    need: Meaning,
    columns: int,
    adversary: Adversary,
    rng: np.random.Generator,
) -> BinaryGame:
    """Return a game about links, each with its own record or with that of another link.

    columns  how many of the last features are sums over links
    """
    if columns not in (0, truth.graph.num_edge_features):
        raise CannotAttack("the sums over links are not those of the edges' numbers")
    links = links_that_move(truth, rng)
    count = affordable_targets(truth, min(MANY_LINKS, len(links) // 2), meaning_width(truth, need))
    chosen = links[: 2 * count]
    has_own_record = rng.permutation(np.arange(len(chosen)) % 2)
    questions = []
    for place, (shard, edge) in enumerate(chosen):
        changed = with_record(shard, edge, _both_views(*chosen[place - 1]), columns)
        questions.append(
            BothShards(changed, shard) if has_own_record[place] else BothShards(shard, changed)
        )
    without, moves = sums_with_and_without(truth, need, questions)
    pairs = [shard.node_ids[shard.graph.edge_index[:, edge]].numpy() for shard, edge in chosen]
    return SumGame(
        question=asked(ids=np.stack(pairs), sum_without=without, moves=moves),
        metric="AUC over links, each with its own amounts and days or another's",
        unit="transfers of a link",
        truth=has_own_record.astype(np.int64),
        shared_sd=shared_sd(has_own_record, moves, rng),
        closed=lambda view: form_of_moves(truth, [need], [moves], adversary, view),
    )


def links_that_move(truth: Truth, rng: np.random.Generator) -> list[Link]:
    """Return links at training nodes that carry numbers, once each, in random order."""
    if truth.graph.edge_features is None:
        raise CannotAttack("the edges of this run's data carry no numbers")
    moving_links: list[Link] = []
    for shard in truth.experiment.shards:
        source, target = shard.graph.edge_index
        train = shard.graph.split.train
        once = (train[source] & ((source < target) | ~train[target])).nonzero().flatten()
        moving_links += [(shard, int(edge)) for edge in once.tolist()]
    if len(moving_links) < 2 * LEAST_TARGETS:
        raise CannotAttack(
            f"{len(moving_links)} links at training nodes; {2 * LEAST_TARGETS} are needed"
        )
    return [moving_links[i] for i in rng.permutation(len(moving_links))]


def with_record(shard: Shard, edge: int, record: tuple[Tensor, Tensor], columns: int) -> Shard:
    """Return the client's shard with another record on one link, as each of its ends sees it."""
    graph, numbers = shard.graph, _edge_numbers(shard)
    back = _way_back(shard, edge)
    changed, features = numbers.clone(), graph.features
    changed[edge], changed[back] = record
    if columns:
        features = features.clone()
        for place in (edge, back):
            end = int(graph.edge_index[0, place])
            features[end, -columns:] += (changed[place] - numbers[place]) / columns**0.5
    return replace(shard, graph=replace(graph, edge_features=changed, features=features))


def _both_views(shard: Shard, edge: int) -> tuple[Tensor, Tensor]:
    """Return a link's record as its first end sees it, and as the other does."""
    return _edge_numbers(shard)[edge], _edge_numbers(shard)[_way_back(shard, edge)]


def _way_back(shard: Shard, edge: int) -> int:
    """Return the number of the same link, listed from its other end."""
    first, second = shard.graph.edge_index[:, edge].tolist()
    back = (shard.graph.edge_index[0] == second) & (shard.graph.edge_index[1] == first)
    return int(back.nonzero()[0])


def _edge_numbers(shard: Shard) -> Tensor:
    assert shard.graph.edge_features is not None
    return shard.graph.edge_features
