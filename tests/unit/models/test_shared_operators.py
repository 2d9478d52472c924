"""Operators are shared by queries over equal tensors, and never over changed ones."""

from __future__ import annotations

from dataclasses import replace

import torch

from securefg.data.graph import Graph, Split
from securefg.models.gcn import gcn_inputs
from securefg.models.shared_operators import SharedOperators, share_operator

CPU = torch.device("cpu")


def small_graph() -> Graph:
    ends = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    none = torch.zeros(5, dtype=torch.bool)
    return Graph(
        name="ring",
        features=torch.eye(5),
        labels=torch.tensor([0, 1, 0, 1, 0]),
        edge_index=torch.cat([ends, ends.flip(0)], 1),
        split=Split(none, none, none),
        num_classes=2,
    )


def test_inputs_outside_sharing_are_made_again() -> None:
    graph = small_graph()
    assert gcn_inputs(graph, 4, CPU)[1] is not gcn_inputs(graph, 4, CPU)[1]


def test_inputs_of_equal_tensors_are_made_once() -> None:
    graph, shared = small_graph(), SharedOperators()
    copied = replace(graph, edge_index=graph.edge_index.clone())
    with shared.in_use():
        first = gcn_inputs(graph, 4, CPU)
    with shared.in_use():
        again = gcn_inputs(copied, 4, CPU)
    assert again[1] is first[1]
    assert again[2] is first[2]


def test_inputs_of_other_edges_share_features_alone() -> None:
    graph, shared = small_graph(), SharedOperators()
    fewer = replace(graph, edge_index=graph.edge_index[:, 2:])
    with shared.in_use():
        first, other = gcn_inputs(graph, 4, CPU), gcn_inputs(fewer, 4, CPU)
    alone = gcn_inputs(fewer, 4, CPU)
    assert other[2] is first[2]
    assert torch.equal(other[1].values, alone[1].values)
    assert torch.equal(other[1].columns, alone[1].columns)


def test_operator_of_tensor_changed_in_place_is_made_again() -> None:
    shared, tensor = SharedOperators(), torch.ones(3)
    with shared.in_use():
        before = share_operator("sum", (tensor,), (), lambda: float(tensor.sum()))
        tensor.mul_(2)
        after = share_operator("sum", (tensor,), (), lambda: float(tensor.sum()))
        copied = share_operator("sum", (tensor.clone(),), (), lambda: float(tensor.sum()))
    assert (before, after, copied) == (3.0, 6.0, 6.0)


def test_operator_under_other_settings_is_made_again() -> None:
    shared, tensor = SharedOperators(), torch.ones(3)
    with shared.in_use():
        made_operators = [
            share_operator("scaled", (tensor,), (scale,), lambda by=scale: by * tensor)
            for scale in (1, 2, 1)
        ]
    assert [float(one[0]) for one in made_operators] == [1.0, 2.0, 1.0]


def test_operators_kept_stay_few_and_keep_first() -> None:
    shared, made = SharedOperators(), []
    tensors = [torch.full((2,), float(k)) for k in range(6)]
    with shared.in_use():
        for tensor in [*tensors, tensors[0]]:
            share_operator("one", (tensor,), (), lambda t=tensor: made.append(float(t[0])))
    assert made == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(shared._kept["one"]) == 2
