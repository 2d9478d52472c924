"""Sums give away exactly what linear algebra says they give away."""

from __future__ import annotations

import os
import runpy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from securefg.data.datasets import load
from securefg.foundation.errors import ConfigError
from securefg.secagg import exposure
from securefg.secagg.exposure import linear_exposure, session_exposure
from securefg.settings.data import DataSettings

small = arrays(
    np.int64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(-2, 2)
)


def reduced(weights: np.ndarray) -> list[list[Fraction]]:
    """Reduced row echelon form in exact arithmetic."""
    rows = [[Fraction(int(x)) for x in row] for row in weights]
    done = 0
    for column in range(weights.shape[1]):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [x / rows[done][column] for x in rows[done]]
        for i in range(len(rows)):
            if i != done:
                rows[i] = [
                    a - rows[i][column] * b for a, b in zip(rows[i], rows[done], strict=True)
                ]
        done += 1
    return rows[:done]


@settings(max_examples=300)
@given(small)
def test_exposed_is_what_exact_elimination_isolates(weights: np.ndarray) -> None:
    """e_j lies in the row space iff a row of the reduced echelon form is e_j."""
    isolated = {
        next(i for i, x in enumerate(row) if x)
        for row in reduced(weights)
        if sum(map(bool, row)) == 1
    }
    assert set(np.flatnonzero(linear_exposure(weights).exposed)) == isolated


@settings(max_examples=100)
@given(small)
def test_amplification_is_the_row_of_the_pseudo_inverse(weights: np.ndarray) -> None:
    """Within a connected part; between parts the pseudo-inverse is zero."""
    found = linear_exposure(weights)
    rows = np.linalg.norm(np.linalg.pinv(weights.astype(float)), axis=1)
    assert found.amplification[found.exposed] == pytest.approx(rows[found.exposed])
    assert np.isinf(found.amplification[~found.exposed]).all()


@settings(max_examples=50)
@given(small)
def test_dense_and_sparse_weights_give_the_same(weights: np.ndarray) -> None:
    dense, thin = linear_exposure(weights), linear_exposure(sparse.coo_array(weights))
    assert np.array_equal(dense.exposed, thin.exposed)
    assert dense.condition_number == thin.condition_number


def test_an_exposed_contribution_is_recovered_with_the_noise_that_was_said() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((6, 9)) * (rng.random((6, 9)) < 0.4)
    weights[5] = 0
    weights[5, 2] = 0.25
    exposure = linear_exposure(weights)
    assert exposure.exposed[2]
    inverse = np.linalg.pinv(weights)
    truth = rng.standard_normal(9)
    assert (inverse @ weights @ truth)[exposure.exposed] == pytest.approx(truth[exposure.exposed])
    noised = weights @ truth + rng.standard_normal((20_000, 6))
    spread = (noised @ inverse.T).std(0)
    assert spread[exposure.exposed] == pytest.approx(
        exposure.amplification[exposure.exposed], rel=0.03
    )


def test_a_sum_of_two_hides_both_and_a_difference_opens_them() -> None:
    assert linear_exposure(np.array([[1, 1]])).share == 0
    assert linear_exposure(np.array([[1, 1], [1, -1]])).share == 1


def test_what_the_adversary_knows_is_subtracted_and_not_counted() -> None:
    """K - 1 colluders expose the last; K - 2 expose nobody."""
    mean = np.full((1, 4), 0.25)
    assert linear_exposure(mean, known=[0, 2]).share == 0
    last = linear_exposure(mean, known=[0, 1, 2])
    assert last.share == 1
    assert last.exposed.tolist() == [False, False, False, True]
    assert last.amplification[3] == pytest.approx(4)
    assert linear_exposure(mean, known=range(4)).share == 0


def test_the_condition_number_spans_all_parts() -> None:
    assert linear_exposure(np.diag([4.0, 0.5, 0.0])).condition_number == pytest.approx(8)


def test_nearly_dependent_sums_are_told_from_dependent_ones() -> None:
    near = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]])
    assert linear_exposure(near).share == 1
    assert linear_exposure(near).condition_number > 1e9
    assert linear_exposure(np.array([[1 / 3, 1 / 7], [1 / 3 * 3, 3 / 7]])).share == 0


@pytest.mark.parametrize("shape", [(0, 4), (4, 4)])
def test_no_sums_expose_nothing(shape: tuple[int, int]) -> None:
    found = linear_exposure(np.zeros(shape))
    assert not found.exposed.any()
    assert found.condition_number == np.inf


def test_float32_and_broken_weights_are_refused() -> None:
    with pytest.raises(TypeError, match="float32"):
        linear_exposure(np.eye(3, dtype=np.float32))
    with pytest.raises(ValueError, match="NaN"):
        linear_exposure(np.array([[np.nan, 1.0]]))


def test_a_part_too_large_for_a_dense_factorisation_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(exposure, "LARGEST_BLOCK", 2)
    assert linear_exposure(np.eye(5)).share == 1  # five parts of one
    with pytest.raises(ConfigError, match="1 sums and 3 contributions"):
        linear_exposure(np.ones((1, 3)))


# ------------------------------------------------------------------------- sessions and nodes


def test_one_sum_of_a_session_exposes_nobody_and_a_repeat_without_one_client_exposes_it() -> None:
    everybody, without_two = {0, 1, 2, 3}, {0, 1, 3}
    assert session_exposure([everybody, everybody], 4).share == 0
    assert np.flatnonzero(session_exposure([everybody, without_two], 4).exposed).tolist() == [2]
    chain = [{0, 1, 2, 3}, {0, 1, 2}, {0, 1}]
    assert np.flatnonzero(session_exposure(chain, 4).exposed).tolist() == [2, 3]


node_exposure = runpy.run_path("benchmarks/linear_exposure.py")["node_exposure"]
HOLDERS = [[0, 1, 2], [1, 2], [2, 4]]


def test_a_node_with_one_holder_is_exposed() -> None:
    exposure = node_exposure(HOLDERS, num_nodes=5)
    assert exposure.num_holders.tolist() == [1, 2, 3, 0, 1]
    assert np.flatnonzero(exposure.exposed).tolist() == [0, 4]
    assert exposure.counts == (1, 2, 1, 1)
    assert exposure.share == 0.5


def test_min_holders_stops_the_server_alone_and_not_one_that_has_a_client() -> None:
    assert not node_exposure(HOLDERS, 5, min_holders=2).exposed.any()
    colluding = node_exposure(HOLDERS, 5, colluders=[0], min_holders=2)
    assert np.flatnonzero(colluding.exposed).tolist() == [1]


def test_all_clients_but_one_expose_whatever_the_last_one_holds() -> None:
    found = node_exposure(HOLDERS, 5, colluders=[0, 1])
    assert found.share == 1
    assert np.flatnonzero(found.exposed).tolist() == HOLDERS[2]


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=4), st.sets(st.integers(0, 3)))
def test_node_exposure_is_the_linear_exposure_of_every_node_apart(holders, colluders) -> None:
    colluders = {c for c in colluders if c < len(holders)}
    found = node_exposure([sorted(nodes) for nodes in holders], 7, colluders)
    for node in range(7):
        sums = np.array([[node in nodes for nodes in holders]])
        assert found.exposed[node] == linear_exposure(sums, colluders).exposed.any()


# ------------------------------------------------------------------------------- real graphs


@pytest.mark.skipif(not os.environ.get("SECUREFG_DATA"), reason="SECUREFG_DATA is not set")
def test_one_hop_sums_on_cora_expose_most_nodes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SECUREFG_CACHE", str(tmp_path))
    graph = load(DataSettings(name="cora"), seed=0)
    row, column = graph.edge_index.numpy()
    loops = sparse.eye_array(graph.num_nodes)
    adjacency = sparse.csr_array((np.ones(row.size), (row, column)), loops.shape) + loops
    root = sparse.diags_array(adjacency.sum(axis=1) ** -0.5)
    found = linear_exposure(root @ adjacency @ root)
    assert round(found.share, 3) == 0.877
