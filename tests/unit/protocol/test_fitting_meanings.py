"""A meaning fits a need that is of its kind and names nothing else of it."""

from __future__ import annotations

import pytest
import torch

from securefg.protocol.meanings import (
    Answers,
    GraphOperator,
    GraphSums,
    Jacobian,
    Layer,
    Layout,
    Matrix,
    Meaning,
    NodeRows,
    Other,
    Predictions,
    Public,
    Weights,
)

BY = GraphOperator("appnp", teleport=0.1, steps=2)
SUMS = GraphSums(of=Jacobian(units=16), by=BY)


@pytest.mark.parametrize(
    ("found", "need"),
    [
        (Weights("network", change=True), Weights()),
        (Weights("network", change=True), Weights(change=True)),
        (Weights("network", change=False), Weights(change=False)),
        (NodeRows("hidden", "nodes", "gcn"), NodeRows(index="nodes")),
        (SUMS, GraphSums()),
        (SUMS, GraphSums(of=Jacobian())),
        (SUMS, GraphSums(of=Jacobian(units=16), by=BY)),
        (SUMS, Meaning()),
        (Answers(), Answers()),
    ],
)
def test_what_a_need_leaves_open_matches_anything(found: Meaning, need: Meaning) -> None:
    assert found.fits(need)


@pytest.mark.parametrize(
    ("found", "need"),
    [
        (Weights("network", change=True), Weights(change=False)),
        (Weights(), Weights("network")),
        (Weights("network"), Predictions()),
        (Predictions("nodes"), NodeRows(index="nodes")),
        (NodeRows("final", "nodes"), NodeRows("hidden", "nodes")),
        (NodeRows("hidden", "public"), NodeRows("hidden", "nodes")),
        (SUMS, Jacobian()),
        (SUMS, GraphSums(of=NodeRows("latent"))),
        (SUMS, GraphSums(of=Jacobian(units=8))),
        (GraphSums(), GraphSums(of=Jacobian())),
        (Jacobian(), GraphSums(of=Jacobian())),
        (Meaning(), Weights()),
        (Other("weights"), Weights()),
        (Public("weights"), Weights()),
    ],
)
def test_what_a_need_names_must_be_so(found: Meaning, need: Meaning) -> None:
    assert not found.fits(need)


def test_meanings_are_told_in_words_without_what_is_not_said() -> None:
    assert Weights().words == "weights"
    assert NodeRows("hidden", "nodes", columns=3).words == "node rows (layer hidden, index nodes)"
    assert SUMS.words == "graph sums (of jacobian (units 16))"


def test_a_layout_finds_its_parts_in_flat_rows() -> None:
    layout = Layout((Layer("W", (3, 2)), Layer("b", (2,)), Layer("V", (4, 2))))
    rows = torch.arange(32.0).reshape(2, 16)
    assert layout.size == 16
    torch.testing.assert_close(layout.layer(rows, "b"), rows[:, 6:8])
    torch.testing.assert_close(layout.part(rows[1], Matrix("W")), rows[1, :6].view(3, 2))
    turned = layout.part(rows, Matrix("V", transposed=True))
    torch.testing.assert_close(turned, rows[:, 8:].view(2, 4, 2).mT)
    with pytest.raises(KeyError):
        layout.layer(rows, "U")
