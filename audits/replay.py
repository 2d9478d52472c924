"""A replay of a client's upload: the method's own host, asked as the record says it was asked.

Games compare guesses with uploads as they were before noise and masks, and make shadows: clients of
other data. Both feed the first recorded request to a host made anew. No method is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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
from securefg.protocol.transcript import Record, read_transcript
from securefg.settings.methods import MethodSettings


def replay_field(
    truth: Truth, shards: Sequence[Shard], need: Meaning, rounds: int = 1, seed: int | None = None
) -> Tensor:
    """Return (clients, …): the field of that meaning, after the clients were asked as in round 1 so
    many times, with nothing coming back."""
    return make_replayer(truth, need)(shards, rounds, seed)


def make_replayer(truth: Truth, need: Meaning) -> Callable[..., Tensor]:
    """Return `replayed` for many shards. The record is read once."""
    asked, batched = _requests_maker(truth), truth.experiment.method.batched

    def answers(shards: Sequence[Shard], rounds: int = 1, seed: int | None = None) -> Tensor:
        if len(shards) > 1 and not batched:  # every client has a host of its own
            return torch.cat([answers([shard], rounds, seed) for shard in shards])
        host = truth.experiment.method.make_host(_shard_site(truth, tuple(shards), seed))
        clients = Clients.of([shard.client for shard in shards])
        last_upload: Tensor | None = None
        for number in range(1, rounds + 1):
            turn = Turn(round=number, step=1, clients=clients)
            last_upload = _ask_until_field(truth, host, turn, need, asked(clients))
        if last_upload is None:
            raise CannotAttack(f"{need.words}: no request of round 1 makes a client upload it")
        return last_upload

    return answers


def make_replier(truth: Truth) -> Callable[[Shard], list[tuple[type[Message], str, Tensor]]]:
    """Return a function that gives all private arrays a client with a shard sends in round 1, by
    message and field, without their axis of clients."""
    replies = whole_replies(truth)

    def arrays(shard: Shard) -> list[tuple[type[Message], str, Tensor]]:
        return [
            (type(reply), name, value[0])
            for reply in replies(shard)
            for name, value in private_arrays(reply).items()
        ]

    return arrays


def private_arrays(reply: Message) -> dict[str, Tensor]:
    """Return the private arrays of a message, with their axis of clients."""
    values = {n: getattr(reply, n) for n, d in reply.declarations.items() if d.is_private}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def whole_replies(truth: Truth) -> Callable[[Shard], list[Message]]:
    """Return a function that gives the replies of a client with a shard to every request of round
    1."""
    asked = _requests_maker(truth)

    def replies(shard: Shard) -> list[Message]:
        host = truth.experiment.method.make_host(_shard_site(truth, (shard,), None))
        turn = Turn(round=1, step=1, clients=Clients.of([shard.client]))
        return [host.handle(request, turn) for request in asked(turn.clients)]

    return replies


def _ask_until_field(
    truth: Truth, host: Host, turn: Turn, need: Meaning, requests: Sequence[Message]
) -> Tensor | None:
    """Ask until the wanted field comes."""
    for request in requests:
        reply = host.handle(request, turn)
        for name, declaration in reply.declarations.items():
            meaning, value = declaration.meaning(truth.config.method), getattr(reply, name)
            if meaning is not None and meaning.fits(need) and isinstance(value, Tensor):
                return value
    return None


def _requests_maker(truth: Truth) -> Callable[[Clients], list[Message]]:
    """Return the requests by the clients that are asked. They are made once if all clients are
    asked alike."""
    records = _first_requests(truth)
    addressed = partial(_address_records, truth, records)
    if any(record.personal for record in records):
        return addressed
    alike = addressed(Clients.of([]))
    return lambda clients: alike


def _first_requests(truth: Truth) -> list[Record]:
    """Return the server's requests of round 1 that clients replied to, in their order, without
    those of secure aggregation."""
    kinds = {message.kind for message in truth.experiment.method.messages}
    request_records, answered = [], set()
    for record in read_transcript(truth.folder.transcript):
        if record.round > 1:
            break
        if record.sender == "sum" or (record.up and record.kind in kinds):
            answered.add(record.step)
        if not (record.up or record.sender == "sum" or record.kind not in kinds or record.thinned):
            request_records.append(record)
    requests = [record for record in request_records if record.step in answered]
    if not requests:
        raise CannotAttack("the requests of round 1 are not in the transcript")
    return requests


def _address_records(truth: Truth, records: Sequence[Record], clients: Clients) -> list[Message]:
    """Return the requests step by step, with these clients' rows if rows are addressed."""
    steps: dict[int, tuple[str, dict[str, Tensor | Scalar]]] = {}
    for record in records:
        if not record.personal and record.step in steps:  # the same to another host
            continue
        numbers = Clients.parse(record.clients).numbers()
        rows = [numbers.index(k) for k in clients.numbers() if k in numbers]
        fields = record.fields()
        before = steps.get(record.step, (record.kind, {}))[1]  # of another host's clients
        for name in record.personal:
            own = [part for part in (before.get(name), fields[name]) if isinstance(part, Tensor)]
            fields[name] = torch.cat([*own[:-1], own[-1][rows]])
        steps[record.step] = (record.kind, fields)
    method = truth.experiment.method
    return [
        codec.decode(codec.encode_fields(fields), method.message(kind))
        for kind, fields in steps.values()
    ]


def _shard_site(truth: Truth, shards: tuple[Shard, ...], seed: int | None) -> Site[MethodSettings]:
    config = truth.config
    own = derive_seed(config.seed, "clients") if seed is None else seed
    return Site(shards, config.method, config.training, own, torch.device("cpu"))


# ----------------------------------------------------------------------------------- public nodes


def public_nodes(truth: Truth) -> Tensor:
    """Return the global ids of the public nodes, in the order of the uploads' rows."""
    public = truth.experiment.partition.public
    if public is None or not len(public):
        raise CannotAttack("the partition has no public nodes")
    return public.sort().values


def public_shard(truth: Truth, graph: Graph, private: Tensor, client: int = 0) -> Shard:
    """Return the induced subgraph on the public and some private nodes (global ids), as a
    client's."""
    public = public_nodes(truth)
    nodes = torch.cat([public, private]).sort().values
    return Shard(client, nodes, graph.subgraph(nodes), torch.searchsorted(nodes, public))
