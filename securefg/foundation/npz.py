"""NPZ archives of plain arrays, whose sizes are checked before anything is unpacked."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shortened

FREE: Final = 256 * 2**20
"""Whatever an archive's own size, it may unpack to so many bytes,"""
MOST_TIMES: Final = 64
"""or to so many times its own size."""
MOST_ARRAYS: Final = 100_000
_HEADER: Final = 10_000
_KINDS: Final = "biufcSU"
_BROKEN = (
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    RuntimeError,  # an encrypted member
    NotImplementedError,  # a compression that zipfile does not know
    RecursionError,
    MemoryError,  # a header's literal that cannot be parsed
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def packed_npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the archive that `numpy.savez_compressed` writes, packed for speed: scores hardly
    shrink, however long they are squeezed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return every array of the archive by its name. Pickled objects are refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_sizes(members, path.stat().st_size)
            return {m.filename.removesuffix(".npy"): _read_array(archive, m) for m in members}
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _BROKEN as error:
        reason = shortened(" ".join(str(error).split()) or type(error).__name__, 200)
        raise DataError(f"{path}: found {reason}; wanted an npz archive of plain arrays") from error


def room_for(stored_bytes: int, times: int | None = None) -> int:
    """Return how many bytes may become of so many stored ones."""
    return max(FREE, (times or MOST_TIMES) * stored_bytes)


def _check_sizes(members: list[zipfile.ZipInfo], stored: int) -> None:
    total = sum(member.file_size for member in members)
    if len(members) > MOST_ARRAYS:
        raise ValueError(f"{len(members)} arrays; at most {MOST_ARRAYS}")
    if total > room_for(stored):
        raise ValueError(f"{stored} bytes that would unpack to {total}; at most {room_for(stored)}")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one member. Its declared shape must be just what its bytes hold."""
    with archive.open(member) as file:
        shape, fortran, dtype = _read_header(file)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in _KINDS or dtype.hasobject or any(length < 0 for length in shape):
            raise ValueError(f"an array {member.filename} of {dtype}")
        if size != member.file_size - file.tell():
            raise ValueError(
                f"an array {member.filename} of {size} bytes by its header and "
                f"{member.file_size - file.tell()} in the archive"
            )
        data = file.read(size + 1)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes in {member.filename}; wanted {size}")
    found = np.frombuffer(bytearray(data), dtype) if size else np.zeros(math.prod(shape), dtype)
    return found.reshape(shape, order="F" if fortran else "C")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    if version == (1, 0):
        return npy.read_array_header_1_0(file, _HEADER)
    if version == (2, 0):
        return npy.read_array_header_2_0(file, _HEADER)
    raise ValueError(f"an array in format {version}")
