"""Requests and replies that once went astray between clients; what hosts keep, how they score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from securefg.federation.engine import Answer, Dropped, Engine, HostId
from securefg.federation.evaluation import LocalScore, Scores, pool_scores
from securefg.federation.federation import Federation
from securefg.foundation.errors import CodecError, ProtocolError
from securefg.methods.base import sample_clients
from securefg.models.optimizers import Adam
from securefg.privacy.ledger import Ledger
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, personal, private, public
from securefg.protocol.transcript import TranscriptWriter

HOSTS = {"a": Clients(((0, 2),)), "b": Clients(((2, 4),))}
# What a host named so, when asked this, says: the encoded body of its reply.
Says = Callable[[HostId, Envelope], bytes]


class Ask(Message, kind="test_federation_regressions.Ask"):
    model: Tensor = public("model")


class Address(Message, kind="test_federation_regressions.Address"):
    own: Tensor | None = personal("a row for each client", means=Other())


class Tell(Message, kind="test_federation_regressions.Tell"):
    x: Tensor = private("sum", "x", means=Other())
    y: Tensor | None = private("each", "y", means=Other())


class Scripted(Engine):
    """Hosts that say what a test wants, whatever they are asked."""

    def __init__(self, hosts: Mapping[HostId, Clients], says: Says) -> None:
        self.hosts = hosts
        self._says = says

    def deliver(self, requests: Mapping[HostId, bytes]) -> Mapping[HostId, Answer | Dropped]:
        return {name: self._answer(name, codec.unframe(data)) for name, data in requests.items()}

    def _answer(self, name: HostId, asked: Envelope) -> Answer:
        body = self._says(name, asked)
        reply = replace(asked, sender=name, receiver="server", kind=Tell.kind, body=body)
        return Answer(codec.frame(reply), [])

    def measure(self, release: bytes, *, at_end: bool = False) -> list[LocalScore]:
        return []

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...

    def close(self) -> None: ...


def tell(x: Tensor, y: Tensor | None = None) -> bytes:
    return codec.encode(Tell(x=x, y=y))


def own_numbers(host: HostId, asked: Envelope) -> bytes:
    return tell(torch.tensor(asked.clients.numbers()).float()[:, None])


ASK = Ask(model=torch.ones(1))
MakeFederation = Callable[..., Federation]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[MakeFederation]:
    with ExitStack() as stack:
        writer = TranscriptWriter(tmp_path / "transcript")
        stack.callback(writer.close)

        def make(says: Says = own_numbers, hosts: Mapping[HostId, Clients] = HOSTS) -> Federation:
            policy = Policy({}, 1e-5, "client", None, protects=True)
            return Federation(Scripted(hosts, says), policy, Ledger(4), writer)

        yield make


# ------------------------------------------------------------------------------------ the replies


@pytest.mark.parametrize("rows", [1, 5])
def test_a_reply_without_just_a_row_per_client_is_refused(
    federation: MakeFederation, rows: int
) -> None:
    cohort = federation(lambda host, asked: tell(torch.ones(rows, 1)))
    with pytest.raises(ProtocolError, match="wanted 2 rows, one per client"):
        cohort.ask(ASK, Tell)


def test_a_field_that_only_some_sent_is_refused(federation: MakeFederation) -> None:
    sent = {"a": torch.ones(2, 3), "b": None}
    cohort = federation(lambda host, asked: tell(torch.ones(2, 1), sent[host]))
    with pytest.raises(ProtocolError, match=r"Tell\.y: only some clients sent it"):
        cohort.ask(ASK, Tell)


def test_replies_of_different_shapes_are_refused(federation: MakeFederation) -> None:
    cohort = federation(lambda host, asked: tell(torch.ones(2, 1 if host == "a" else 2)))
    with pytest.raises(ProtocolError, match=r"Tell\.x: clients sent arrays of different kinds"):
        cohort.ask(ASK, Tell)


def test_a_reply_that_was_cut_is_a_codec_error(federation: MakeFederation) -> None:
    cohort = federation(lambda host, asked: own_numbers(host, asked)[:10])
    with pytest.raises(CodecError):
        cohort.ask(ASK, Tell)


# ----------------------------------------------------------------------------------- the requests


def test_a_personal_field_may_be_left_out(federation: MakeFederation) -> None:
    assert federation().ask(Address(own=None), Tell).count == 4


@pytest.mark.parametrize("rows", [3, 5])
def test_personal_rows_must_be_as_many_as_the_clients(
    federation: MakeFederation, rows: int
) -> None:
    with pytest.raises(ProtocolError, match="wanted 4 rows, one per client"):
        federation().ask(Address(own=torch.ones(rows, 1)), Tell)


def test_a_client_that_nobody_hosts_cannot_be_asked(federation: MakeFederation) -> None:
    with pytest.raises(ProtocolError, match="clients 1,9 were asked; there are 4"):
        federation().ask(ASK, Tell, Clients.of([1, 9]))


@pytest.mark.parametrize(
    "numbers",
    [([1, 3], [0, 2]), ([2, 3], [0, 1]), ([1, 2], [3, 4]), ([0, 1], [3, 4]), ([0, 1], [1, 2])],
    ids=["interleaved", "descending", "from one", "gap", "twice"],
)
def test_hosts_whose_clients_do_not_ascend_from_zero_are_refused(
    federation: MakeFederation, numbers: tuple[list[int], list[int]]
) -> None:
    """Personal rows, and rows of replies, would be taken for those of other clients."""
    hosts = {name: Clients.of(own) for name, own in zip("ab", numbers, strict=True)}
    with pytest.raises(ProtocolError, match="in ascending order"):
        federation(hosts=hosts)


@pytest.mark.parametrize(("share", "count"), [(0.07, 7), (0.55, 55), (0.14, 14), (0.29, 29)])
def test_a_share_of_the_clients_is_not_rounded_past_itself(share: float, count: int) -> None:
    assert len(sample_clients(100, share, torch.Generator())) == count


# ------------------------------------------------------------- what hosts keep, and how they score


def test_a_state_that_adam_handed_over_does_not_change_afterwards() -> None:
    adam = Adam([torch.ones(3)], weight_decay=[0.0], lr=0.1)
    adam.step([torch.ones(3)])
    state = adam.state()
    before = {name: value.clone() for name, value in state.items()}
    adam.step([torch.ones(3)])
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_scores_of_no_client_pool_to_zero() -> None:
    assert pool_scores([]) == Scores(0.0, 0.0, 0.0, 0.0)
