"""What a client would have uploaded: the method's own host, asked as the record says it was asked.

Games compare guesses with uploads as they were before noise and masks, and make shadows: clients of
other data. Both feed the first recorded request to a host made anew; no method is known by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attacks.base import CannotAttack
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.data.shard import Shard
from securefg.federation.roles import Host, Site
from securefg.foundation.streams import derive_seed
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Meaning
from securefg.protocol.messages import Message, Scalar
from securefg.protocol.transcript import read_transcript
from securefg.settings.methods.base import MethodSettings


def replayed(
    truth: Truth, shards: Sequence[Shard], need: Meaning, rounds: int = 1, seed: int | None = None
) -> Tensor:
    """(clients, …): the field of that meaning, after so many rounds of being asked as in round 1,
    nothing coming back."""
    host = truth.experiment.method.make_host(_site(truth, tuple(shards), seed))
    clients = Clients.of([shard.client for shard in shards])
    found: Tensor | None = None
    for number in range(1, rounds + 1):
        found = _asked(truth, host, Turn(round=number, step=1, clients=clients), need)
    if found is None:
        raise CannotAttack(f"{need.words}: no request of round 1 makes a client upload it")
    return found


def _asked(truth: Truth, host: Host, turn: Turn, need: Meaning) -> Tensor | None:
    """Ask as in round 1, until the wanted field comes."""
    for request in _first_requests(truth, turn.clients):
        reply = host.handle(request, turn)
        for name, declaration in reply.declarations.items():
            meaning, value = declaration.meaning(truth.config.method), getattr(reply, name)
            if meaning is not None and meaning.fits(need) and isinstance(value, Tensor):
                return value
    return None


def _first_requests(truth: Truth, clients: Clients) -> list[Message]:
    """The server's requests of round 1 in their order, with these clients' rows where rows are
    addressed; those of secure aggregation left out."""
    method = truth.experiment.method
    kinds = {message.kind for message in method.messages}
    steps: dict[int, tuple[str, dict[str, Tensor | Scalar]]] = {}
    for record in read_transcript(truth.folder.transcript):
        if record.round > 1:
            break
        if record.up or record.sender == "sum" or record.kind not in kinds or record.thinned:
            continue
        numbers = Clients.parse(record.clients).numbers()
        rows = [numbers.index(k) for k in clients.numbers() if k in numbers]
        fields = record.fields()
        before = steps.get(record.step, (record.kind, {}))[1]  # of another host's clients
        for name in record.personal:
            own = [part for part in (before.get(name), fields[name]) if isinstance(part, Tensor)]
            fields[name] = torch.cat([*own[:-1], own[-1][rows]])
        steps[record.step] = (record.kind, fields)
    if not steps:
        raise CannotAttack("the requests of round 1 are not in the transcript")
    return [
        codec.decode(codec.encode_fields(fields), method.message(kind))
        for kind, fields in steps.values()
    ]


def _site(truth: Truth, shards: tuple[Shard, ...], seed: int | None) -> Site[MethodSettings]:
    config = truth.config
    own = derive_seed(config.seed, "clients") if seed is None else seed
    return Site(shards, config.method, config.training, own, torch.device("cpu"))


# ----------------------------------------------------------------------------------- public nodes


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
