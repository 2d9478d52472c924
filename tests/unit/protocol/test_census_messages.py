"""The messages of a census are derived from the reply whose constants it counts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from securefg.foundation.errors import ProtocolError
from securefg.protocol import codec
from securefg.protocol.meanings import Holdings, Other, Size
from securefg.protocol.messages import Message, census_of, private


class Reply(Message, kind="test_census_messages.Reply"):
    rows: Tensor = private(
        "sum", "rows", means=Other(), rows="node", holders="holds", weight="size"
    )
    size: Tensor | None = private("sum", "number of nodes", means=Size())
    holds: Tensor | None = private("sum", "1 if held", means=Holdings(), rows="node", weight="size")
    single: Tensor | None = private("each", "a constant of which all is needed", means=Size())


class Constants(Message, kind="test_census_messages.Constants"):
    sums: Tensor = private("sum", "sums of features", means=Other(), constant=True)


class Moving(Message, kind="test_census_messages.Moving"):
    rows: Tensor = private("sum", "rows", means=Other())


def test_census_of_a_reply_has_its_summed_constants_unweighted() -> None:
    census = census_of(Reply)
    assert census is not None
    assert (census.request.kind, census.reply.kind) == (
        "test_census_messages.ReplyCount",
        "test_census_messages.ReplyCensus",
    )
    assert list(census.reply.declarations) == ["size", "holds"]
    assert census.reply.declarations["holds"].rows == "node"
    assert census.reply.declarations["holds"].weight is None
    assert all(d.constant and d.is_private for d in census.reply.declarations.values())


def test_census_of_a_reply_is_one_class() -> None:
    assert census_of(Reply) is census_of(Reply)


@pytest.mark.parametrize("reply", [Constants, Moving])
def test_census_of_constants_alone_or_of_none_is_none(reply: type[Message]) -> None:
    assert census_of(reply) is None


def test_census_reply_travels_with_what_a_run_counts() -> None:
    census = census_of(Reply)
    assert census is not None
    sent = census.reply(size=None, holds=torch.ones(2, 3, 1))
    found = codec.decode(codec.encode(sent), census.reply)
    assert found.values()["size"] is None
    assert torch.equal(found.values()["holds"], torch.ones(2, 3, 1))  # type: ignore[arg-type]


def test_holders_that_are_no_constant_field_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"holders: found 'gone'; expected a constant field"):

        class Wrong(Message, kind="test_census_messages.Wrong"):
            rows: Tensor = private("sum", "rows", means=Other(), rows="node", holders="gone")


def test_rows_that_add_up_without_holders_are_refused() -> None:
    with pytest.raises(ProtocolError, match="found rows without holders"):

        class Loose(Message, kind="test_census_messages.Loose"):
            rows: Tensor = private("sum", "rows", means=Other(), rows="node", adds_up=True)
