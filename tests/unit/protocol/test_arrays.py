"""Arrays are written as the safetensors library writes them, and read where it reads them."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from securefg.foundation.errors import CodecError
from securefg.protocol import arrays as stored_arrays
from securefg.protocol.arrays import (
    DTYPES,
    all_finite,
    concatenate_arrays,
    read_arrays,
    write_arrays,
)
from tests.unit.random_arrays import made

Header = list[tuple[str, Any]]
Bits = dict[str, tuple[torch.dtype, tuple[int, ...], bytes]]

NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


arrays_of = st.dictionaries(
    NAMES,
    st.builds(made, SHAPES, st.sampled_from(list(DTYPES.values())), st.integers(0, 2**32 - 1)),
    max_size=5,
)


def raw(array: Tensor) -> bytes:
    return bytes(array.reshape(-1).view(torch.uint8).tolist())


def written(arrays: dict[str, Tensor]) -> bytes:
    return b"".join(write_arrays(arrays))


def as_read(data: bytes) -> Bits | None:
    """What is read here; None where it is refused, which must be a CodecError."""
    try:
        stored_arrays = read_arrays(memoryview(data))
    except CodecError:
        return None
    for stored in stored_arrays.values():
        assert stored.data.readonly
        assert bytes(stored.data) == raw(stored.tensor())
    return {name: (s.dtype, s.shape, bytes(s.data)) for name, s in stored_arrays.items()}


def as_library_reads(data: bytes) -> Bits | None:
    try:
        found = load(data)
    except Exception:
        return None
    return {name: (a.dtype, tuple(a.shape), raw(a)) for name, a in found.items()}


def with_header(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def taken_apart(data: bytes) -> tuple[Header, bytes]:
    end = 8 + struct.unpack_from("<Q", data)[0]
    return list(json.loads(data[8:end]).items()), data[end:]


def text_of(header: Header) -> bytes:
    """As JSON; unlike a dict it may hold a name twice."""
    tight = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    objects = (tight.encode({name: entry}) for name, entry in header)
    return ("{" + ",".join(text[1:-1] for text in objects) + "}").encode()


def array(shape: list[Any], start: Any, end: Any, dtype: Any = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@settings(max_examples=200)
@given(arrays_of)
def test_the_bytes_are_those_of_the_library(arrays: dict[str, Tensor]) -> None:
    assert written(arrays) == save(arrays)


def test_dtypes_are_ordered_as_the_library_orders_them() -> None:
    arrays = {f"{i:02}": made((2, 3), dtype, i) for i, dtype in enumerate(DTYPES.values())}
    assert written(arrays) == save(arrays)
    assert [entry["dtype"] for _, entry in taken_apart(save(arrays))[0]] == list(DTYPES)[::-1]


@settings(max_examples=100)
@given(arrays_of)
def test_what_the_library_writes_is_read_where_it_lies(arrays: dict[str, Tensor]) -> None:
    arrays.pop("__metadata__", None)
    data = save(arrays)
    found = stored_arrays._as_written(memoryview(data))
    assert found is not None
    assert {n: (s.dtype, s.shape, bytes(s.data)) for n, s in found.items()} == as_library_reads(
        data
    )


CHANGES: list[tuple[str, Any]] = [
    ("dtype", "U8"),
    ("dtype", "F32"),
    ("dtype", "F4"),
    ("dtype", "F8_E8M0"),
    ("dtype", "f32"),
    ("dtype", 7),
    ("dtype", ["F32"]),
    ("dtype", None),
    ("shape", []),
    ("shape", [2]),
    ("shape", [3, 2]),
    ("shape", [1, 2, 3]),
    ("shape", [True]),
    ("shape", [1.0]),
    ("shape", [-1]),
    ("shape", [-2, -3]),
    ("shape", "2"),
    ("shape", 2),
    ("shape", {}),
    ("shape", [0, 2**48]),
    ("shape", [0, 2**62, 2**62]),
    ("shape", [2**63, 4, 0]),
    ("shape", [0, 2**64]),
    ("data_offsets", [0, 4]),
    ("data_offsets", [4, 0]),
    ("data_offsets", [0, 2**63]),
    ("data_offsets", [-4, 0]),
    ("data_offsets", [0, 4, 8]),
    ("data_offsets", [0]),
    ("data_offsets", [0.0, 4.0]),
    ("data_offsets", None),
    ("more", 1),
]


ODD_ENTRIES = [None, [], {}, "x", {"k": "v"}, ["U8", [0], [0, 0]]]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """What the library wrote, with a few things about its header and length changed, or none."""
    names = st.sampled_from(["a", "b", "ü", "__metadata__"])
    dtypes = st.sampled_from([torch.uint8, torch.bool, torch.float32, torch.int64])
    some = st.builds(made, SHAPES, dtypes, st.integers(0, 9))
    header, data = taken_apart(save(draw(st.dictionaries(names, some, min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 2))):
        index = draw(st.integers(0, len(header) - 1))
        name, entry = header[index]
        match draw(st.sampled_from(["change", "repeat", "move", "odd", "cut", "add"])):
            case "change" if isinstance(entry, dict):
                header[index] = (name, entry | dict([draw(st.sampled_from(CHANGES))]))
            case "repeat":
                header.append((draw(names), entry))
            case "move":
                header.append(header.pop(index))
            case "odd":
                header[index] = (name, draw(st.sampled_from(ODD_ENTRIES)))
            case "cut":
                data = data[: draw(st.integers(0, len(data)))]
            case "add":
                data += draw(st.binary(max_size=4))
    ends = [" " * (-len(text_of(header)) % 8), "", " ", "\n", "x", "\0"]
    return with_header(text_of(header) + draw(st.sampled_from(ends)).encode(), data)


@settings(max_examples=300)
@given(damaged())
def test_the_library_and_we_read_and_refuse_alike(data: bytes) -> None:
    assert as_read(data) == as_library_reads(data)


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.integers(0, 255), st.integers(0, 2))
def test_with_a_byte_changed_or_cut_the_library_and_we_agree(
    place: int, value: int, cut: int
) -> None:
    whole = save({"a": torch.arange(3, dtype=torch.int16), "bü": torch.ones(1, 2)})
    place %= len(whole)
    changed = whole[:place] + bytes([value]) + whole[place + 1 :]
    changed = changed[: len(changed) - cut]
    assert as_read(changed) == as_library_reads(changed)


REFUSED = {
    "overlapping offsets": ([("a", array([4], 0, 4)), ("b", array([4], 2, 6))], 6),
    "a gap between offsets": ([("a", array([2], 0, 2)), ("b", array([2], 4, 6))], 6),
    "offsets past the end": ([("a", array([9], 0, 9))], 8),
    "offsets that go back": ([("a", array([2], 2, 0))], 2),
    "the same bytes twice": ([("a", array([4], 0, 4)), ("b", array([4], 0, 4))], 4),
    "an unknown dtype": ([("a", array([4], 0, 4, "U9"))], 4),
    "a dtype that torch lacks": ([("a", array([8], 0, 4, "F4"))], 4),
    "a dtype that is no text": ([("a", array([4], 0, 4, ["U8"]))], 4),
    "a shape too small for its bytes": ([("a", array([3], 0, 4))], 4),
    "a shape too large for its bytes": ([("a", array([2, 3], 0, 4))], 4),
    "a wider dtype than its bytes": ([("a", array([4], 0, 4, "F32"))], 4),
    "sizes below zero": ([("a", array([-2, -2], 0, 4))], 4),
    "a size that is a truth value": ([("a", array([True], 0, 1))], 1),
    "a size that is not whole": ([("a", array([4.0], 0, 4))], 4),
    "a product that overflows": ([("a", array([2**63, 4, 0], 0, 0))], 0),
    "a size past 64 bits": ([("a", array([0, 2**64], 0, 0))], 0),
    "a product that wraps around to its bytes": ([("a", array([2**32, 2**32], 0, 0))], 0),
    "bytes after the arrays": ([("a", array([4], 0, 4))], 5),
    "bytes of no array": ([], 1),
    "an array in the place of metadata": ([("__metadata__", array([4], 0, 4))], 4),
    "an entry without a shape": ([("a", {"dtype": "U8", "data_offsets": [0, 4]})], 4),
    "an entry that is no object": ([("a", 4)], 4),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_damaged_header_is_refused_as_by_the_library(what: str) -> None:
    header, length = REFUSED[what]
    text = text_of(header)
    data = with_header(text + b" " * (-len(text) % 8), bytes(length))
    assert as_library_reads(data) is None
    with pytest.raises(CodecError, match="arrays of a message cannot be read"):
        read_arrays(memoryview(data))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]      ",
        b'{"\xed\xa0\x80":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'\xef\xbb\xbf{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"a":' * 100_000,
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}',
        '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'.encode("utf-16"),
    ],
)
def test_a_header_that_is_no_object_in_utf8_is_refused(header: bytes) -> None:
    assert as_library_reads(with_header(header, b"")) is None
    assert as_read(with_header(header, b"")) is None


@pytest.mark.parametrize("length", [9, 2**31, 2**63, 2**64 - 1])
def test_a_header_longer_than_its_message_is_refused(length: int) -> None:
    assert as_read(struct.pack("<Q", length) + b"{}      ") is None


def test_a_header_longer_than_the_library_takes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = memoryview(save({"a": torch.ones(2)}))
    assert stored_arrays._as_written(data) is not None
    monkeypatch.setattr(stored_arrays, "_LONGEST_HEADER", 16)
    assert stored_arrays._as_written(data) is None


def test_of_a_name_given_twice_no_bytes_are_taken_as_they_lie() -> None:
    header = [("a", array([0], 0, 0)), ("a", array([4], 0, 4))]
    data = with_header(text_of(header), b"abcd")
    assert stored_arrays._as_written(memoryview(data)) is None
    assert as_read(data) == as_library_reads(data)


@pytest.mark.parametrize("dtype", [torch.complex128, torch.float8_e8m0fnu])
def test_a_dtype_that_could_not_be_read_back_is_not_written(dtype: torch.dtype) -> None:
    with pytest.raises(CodecError, match=f"no array of {dtype} can be sent; allowed: "):
        write_arrays({"a": torch.empty(2, dtype=dtype)})


def test_what_was_read_can_be_written_to_without_a_trace_in_the_bytes() -> None:
    data = bytearray(save({"a": torch.zeros(2, 3)}))
    before = bytes(data)
    stored = read_arrays(memoryview(data))["a"]
    with pytest.raises(TypeError, match="read-only"):
        stored.data[0] = 1
    for tensor in (
        stored.tensor(),
        concatenate_arrays([stored]),
        concatenate_arrays([stored, stored]),
    ):
        tensor += 1
    assert data == before
    assert not stored.tensor().any()


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    SHAPES,
    st.sampled_from([torch.float32, torch.bool, torch.bfloat16]),
)
def test_parts_are_concatenated_along_their_first_axis(
    rows: list[int], rest: tuple[int, ...], dtype: torch.dtype
) -> None:
    parts = [made((n, *rest), dtype, seed) for seed, n in enumerate(rows)]
    stored = [read_arrays(memoryview(written({"x": part})))["x"] for part in parts]
    whole, wanted = concatenate_arrays(stored), torch.cat(parts)
    assert (whole.dtype, whole.shape, raw(whole)) == (wanted.dtype, wanted.shape, raw(wanted))


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_floating_point])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 0.0])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(
    dtype: torch.dtype, bad: float
) -> None:
    values = torch.zeros(3 * 5).to(dtype).reshape(3, 5)
    values[2, 4] = torch.tensor(bad).to(dtype)
    wanted = bool(values.float().isfinite().all())
    assert all_finite(values) is wanted
    assert all_finite(read_arrays(memoryview(written({"x": values})))["x"]) is wanted


def test_arrays_are_searched_piece_by_piece_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_arrays, "_PIECE", 4)
    for place in range(11):
        values = torch.zeros(11)
        values[place] = torch.nan
        assert not all_finite(values)
        assert not all_finite(read_arrays(memoryview(written({"x": values})))["x"])
    for values in (torch.zeros(11), torch.zeros(0), torch.zeros(2, 0), torch.arange(3)):
        assert all_finite(values)
        assert all_finite(read_arrays(memoryview(written({"x": values})))["x"])
