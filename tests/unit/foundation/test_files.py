"""Files are written whole or not at all, from one piece or from parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from securefg.foundation.files import write_atomically


def test_write_atomically_of_parts_joins_them(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, [b"one", memoryview(b"two"), b""])
    assert path.read_bytes() == b"onetwo"


def test_write_atomically_that_fails_between_parts_keeps_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")

    class Breaking(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield b"new"
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        write_atomically(path, Breaking())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
