"""A view finds fields by what they mean, and hands one client's rows out whoever else sent some."""

from __future__ import annotations

import pytest
import torch

from attacks.base import CannotAttack, View, in_words, list_options
from attacks.rows import client_rounds
from securefg.federation.roles import PublicInfo
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import NodeRows, Other, Predictions, Weights
from securefg.protocol.transcript import Adversary, Record, Seen

MODEL, ROWS = ("m.Update", "weights"), ("m.Update", "rows")
MEANINGS = {
    ("m.Start", "weights"): Weights("network", change=False),
    MODEL: Weights("network", change=True),
    ROWS: NodeRows("hidden", "nodes"),
    ("m.Update", "odd"): Other("no word for it"),
}


def seen(number: int, round: int, client: int | None, rule: str = "plain", **fields: float) -> Seen:
    """A client's upload; of nobody, what the server sent to all."""
    up = client is not None
    header = Record(
        seq=number,
        round=round,
        step=1,
        attempt=1,
        seconds=0.0,
        sender=f"client-{client}" if up else "server",
        receivers=("server",) if up else ("client-0",),
        kind="m.Update" if up else "m.Start",
        clients=str(client) if up else "0-3",
        payload=0,
        envelope=0,
        rules=dict.fromkeys(fields, rule) if up else {},
    )
    values = {name: torch.full((1, 2) if up else (2,), value) for name, value in fields.items()}
    return Seen(header, Clients.of([client] if up else [0, 1, 2]), values)


def view(*messages: Seen) -> View:
    public = PublicInfo(4, 3, 2, 3, 0, torch.device("cpu"))
    return View(Adversary("server"), public, MEANINGS, seen=messages)


PLAIN = view(
    seen(1, 1, None, weights=9.0),
    *(seen(2 + k, 1, k, weights=1.0 + k, rows=4.0 + k) for k in range(3)),
)


@pytest.mark.parametrize("client", range(3))
def test_a_clients_rows_are_found_whichever_host_sent_last(client: int) -> None:
    found = client_rounds(PLAIN, client, NodeRows(index="nodes"))
    assert found.keys() == {1}
    assert found[1].tolist() == [4.0 + client] * 2


def test_what_was_sent_down_is_no_upload() -> None:
    assert [m.value.max().item() for m in PLAIN.uploads(Weights())] == [1.0, 2.0, 3.0]
    assert [m.value.max().item() for m in PLAIN.downloads(Weights())] == [9.0]
    assert all(m.meaning == MEANINGS[MODEL] for m in PLAIN.uploads(Weights()))


def test_a_need_that_names_more_finds_less() -> None:
    assert PLAIN.places(Weights()) == [("m.Start", "weights"), MODEL]
    assert PLAIN.places(Weights(change=True)) == [MODEL]
    assert PLAIN.places(NodeRows("final")) == []


def test_what_nobody_sent_and_what_is_masked_are_refused_by_meaning() -> None:
    with pytest.raises(CannotAttack, match="predictions: not in the view"):
        PLAIN.readable(Predictions())
    need = (NodeRows("final"), Predictions("nodes"))
    with pytest.raises(CannotAttack, match=r"\(layer final\) or predictions .*: not in the view"):
        client_rounds(PLAIN, 0, need)
    with pytest.raises(CannotAttack, match="client 7 uploaded nothing"):
        client_rounds(PLAIN, 7, NodeRows())
    masked = view(seen(1, 1, 0, "gaussian+masked", weights=1.0))
    with pytest.raises(CannotAttack, match="masked, so that the view holds only sums"):
        masked.readable(Weights())


def test_a_network_that_the_method_does_not_tell_of_is_not_known() -> None:
    for name in (None, "network"):
        with pytest.raises(CannotAttack, match="nothing is known of the network"):
            PLAIN.network(name)
    with pytest.raises(CannotAttack, match="how the clients train"):
        _ = PLAIN.recipe


def test_a_need_is_one_meaning_or_several_of_which_one_is_enough() -> None:
    either = (NodeRows("hidden"), Predictions())
    assert list_options(Weights()) == (Weights(),)
    assert list_options(either) == either
    assert in_words(either) == "node rows (layer hidden) or predictions"
