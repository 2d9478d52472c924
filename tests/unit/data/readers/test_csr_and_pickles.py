"""Wrong indices never reach scipy, and a pickle's state never reaches numpy unchecked."""

from __future__ import annotations

import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from securefg.data.readers.csr import dense_csr
from securefg.data.readers.pickles import read_matrix, read_neighbours
from securefg.foundation.errors import DataError

GOOD: dict[str, Any] = {
    "data": np.array([1.0, 2.0, 3.0]),
    "indices": np.array([0, 3, 1]),
    "indptr": np.array([0, 2, 3]),
    "shape": (2, 4),
    "stored": 100,
}


def test_a_good_matrix_is_scipys() -> None:
    parts = (GOOD["data"], GOOD["indices"], GOOD["indptr"])
    assert np.array_equal(dense_csr(**GOOD), csr_matrix(parts, shape=(2, 4)).toarray())


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": np.array([0, 4, 1])},
        {"indices": np.array([0, -1, 1])},
        {"indices": np.array([0, 2**62, 1])},
        {"indices": np.array([0.0, 3.0, 1.0])},
        {"indices": np.array([0, 3])},
        {"indptr": np.array([0, 2, 9])},
        {"indptr": np.array([0, 9, 3])},
        {"indptr": np.array([-5, 2, 3])},
        {"indptr": np.array([0, 2**40, 3])},
        {"indptr": np.array([0, 3])},
        {"data": np.array([[1.0, 2.0, 3.0]])},
        {"data": np.array(["a", "b", "c"])},
        {"shape": (2, 2**40)},
        {"shape": (2, -4)},
        {"shape": (2, 4, 1)},
        {"shape": (2.0, 4)},
    ],
)
def test_indices_that_do_not_fit_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="matrix of shape"):
        dense_csr(**{**GOOD, **changed})


def test_a_pickled_matrix_with_wrong_indices_is_a_data_error(tmp_path: Path) -> None:
    matrix = csr_matrix(np.eye(50))
    matrix.indices[7] = 2**30
    (tmp_path / "x").write_bytes(pickle.dumps(matrix))
    with pytest.raises(DataError, match="indices that do not fit"):
        read_matrix(tmp_path / "x")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_matrices_come_back_whatever_the_protocol(tmp_path: Path, protocol: int) -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 2, (9, 5)).astype(np.float32)
    for value in (dense, csr_matrix(dense), np.asfortranarray(dense), dense.astype(">i4")):
        (tmp_path / "x").write_bytes(pickle.dumps(value, protocol=protocol))
        assert np.array_equal(read_matrix(tmp_path / "x"), dense)


def test_a_pickle_that_asks_for_endless_room_is_refused(tmp_path: Path) -> None:
    put = b"\x80\x02]r\xff\xff\xff\x7f."  # stores an empty list as memo entry 2^31 - 1
    long = b"\x80\x04\x8e" + (2**60).to_bytes(8, "little") + b"x."
    for data in (put, long, b"\x80\x02}(" + b"K\x00" * 3 + b"u."):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(DataError):
            read_matrix(tmp_path / "x")


def test_a_list_that_stands_for_every_node_is_refused(tmp_path: Path) -> None:
    shared = [0] * 5000
    (tmp_path / "graph").write_bytes(pickle.dumps(dict.fromkeys(range(5000), shared)))
    with pytest.raises(DataError, match="node -> list of neighbours"):
        read_neighbours(tmp_path / "graph")


def test_a_pickle_that_announces_gigabytes_is_refused_before_room_is_made(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x80\x05\x96" + (2**32).to_bytes(8, "little") + b"x.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError):
        read_matrix(tmp_path / "x")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19
