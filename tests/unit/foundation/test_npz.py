"""An NPZ archive is unpacked only where its headers, its sizes and its bytes agree."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefg.foundation.errors import DataError
from securefg.foundation.npz import packed_npz, read_npz


def npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)
    return path


def test_packed_arrays_are_read_by_us_and_by_numpy(tmp_path: Path) -> None:
    arrays = {"a/server/score": np.arange(1000) / 3, "b": np.array([True, False]), "c": np.zeros(0)}
    path = tmp_path / "packed.npz"
    path.write_bytes(packed_npz(arrays))
    with np.load(path) as known:
        for found in (read_npz(path), known):
            assert sorted(found) == sorted(arrays)
            assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    with pytest.raises(ValueError, match="allow_pickle"):
        packed_npz({"d": np.array([None])})


def test_arrays_come_back_as_numpy_stored_them(tmp_path: Path) -> None:
    arrays = {
        "x": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "empty": np.zeros((0, 4)),
        "scalar": np.array(3),
        "text": np.array(b"csr"),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = read_npz(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("securefg.foundation.npz.FREE", 2**20)
    monkeypatch.setattr("securefg.foundation.npz.MOST_TIMES", 8)
    zeros = npy(np.zeros(2**19, np.uint8))
    header, block = zeros[:128], bytes(2**20)
    path = tmp_path / "bomb.npz"
    deflated = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
    with deflated as made, made.open("x.npy", "w") as file:
        file.write(header)
        for _ in range(30):
            file.write(block)
    with pytest.raises(DataError, match=r"bytes that would unpack to 31\d+; at most 1048576"):
        read_npz(path)


def declared(shape: str, dtype: str = "<f8") -> bytes:
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(80)


@pytest.mark.parametrize(
    "member",
    [
        declared("(99999999999, 99999999)"),
        declared("(9,)"),
        declared("(-1, -10)"),
        declared("(10,)", "|O"),
        declared("(1,)", "V80"),
        declared("(" * 60 + ")" * 60),
        declared("'x'"),
        b"\x93NUMPY\x07\x00",
        b"no array",
        npy(np.arange(3.0))[:-4],
        npy(np.arange(3.0)) + b"more",
    ],
)
def test_a_member_whose_header_does_not_fit_its_bytes_is_refused(
    tmp_path: Path, member: bytes
) -> None:
    with pytest.raises(DataError, match=r"a\.npz: found .*; wanted an npz archive of plain arrays"):
        read_npz(archive(tmp_path / "a.npz", x=member))


def test_a_renamed_npy_a_pickle_and_a_torn_archive_are_refused(tmp_path: Path) -> None:
    whole = archive(tmp_path / "w.npz", x=npy(np.arange(3.0))).read_bytes()
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    (tmp_path / "b.npz").write_bytes(npy(np.arange(3.0)))
    (tmp_path / "c.npz").write_bytes(whole[:-30])
    archive(tmp_path / "d.npz", x=pickled.getvalue())
    for name in "bcd":
        with pytest.raises(DataError, match=rf"{name}\.npz"):
            read_npz(tmp_path / f"{name}.npz")
    with pytest.raises(DataError, match="cannot be read"):
        read_npz(tmp_path / "missing.npz")
