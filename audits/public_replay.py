"""PPFL-GNN's own client, made to train once more: on its shard, or on another that a game deals it.

A client of either method draws all it needs from the run's seed, so what it uploads in round 1 is
known again to the bit, without the noise or mask that it left under; and a shard of public nodes
alone shows what follows from them without anybody's private nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attacks.base import CannotAttack
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.data.shard import Shard
from securefg.federation.channel import Turn
from securefg.federation.roles import Site
from securefg.foundation.streams import derive_seed
from securefg.methods.ppfl.exchange import Aligned, Mean, RotatedRows, Rows
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.settings.methods.base import MethodSettings


def public_nodes(truth: Truth) -> Tensor:
    """Global ids, in the order of the uploads' rows."""
    public = truth.experiment.partition.public
    if public is None or not len(public):
        raise CannotAttack("the partition has no public nodes")
    return public.sort().values


def public_shard(truth: Truth, graph: Graph, private: Tensor, client: int = 0) -> Shard:
    """The induced subgraph on the public and some private nodes (global ids), as a client's."""
    public = public_nodes(truth)
    nodes = torch.cat([public, private]).sort().values
    return Shard(client, nodes, graph.subgraph(nodes), torch.searchsorted(nodes, public))


def rows_of(truth: Truth, shard: Shard, rounds: int, seed: int | None = None) -> Tensor:
    """Rows of the public nodes after so many rounds of training alone, nothing coming back."""
    host = truth.experiment.method.make_host(_site(truth, shard, seed))
    reply: Message | None = None
    for number in range(1, rounds + 1):
        request = Aligned(number=number, upload=True, rows=None, known=None)
        reply = host.handle(request, _turn(shard, number))
    assert isinstance(reply, Rows)
    return reply.rows[0]


def first_upload(truth: Truth, client: int) -> Tensor:
    """What a client's data alone made of its rows for round 1, before noise and mask."""
    shard = truth.experiment.shards[client]
    host = truth.experiment.method.make_host(_site(truth, shard, None))
    request: Message = Aligned(number=1, upload=True, rows=None, known=None)
    if truth.config.method.alignment == "reference":
        request = Mean(number=1, upload=True, made=0, mean=None, known=None, released=None)
    reply = host.handle(request, _turn(shard, 1))
    assert isinstance(reply, Rows | RotatedRows)
    return reply.rows[0]


def _site(truth: Truth, shard: Shard, seed: int | None) -> Site[MethodSettings]:
    config = truth.config
    own = derive_seed(config.seed, "clients") if seed is None else seed
    return Site((shard,), config.method, config.training, own, torch.device("cpu"))


def _turn(shard: Shard, number: int) -> Turn:
    return Turn(round=number, step=1, clients=Clients.of([shard.client]))
