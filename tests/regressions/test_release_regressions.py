"""What was wrong with the stored release once."""

from __future__ import annotations

from pathlib import Path

import torch

from securefg.protocol import codec
from securefg.runs.release_file import write_release


def test_the_same_release_is_the_same_file_every_time(tmp_path: Path) -> None:
    body = codec.encode_fields({"weights": torch.ones(3), "index_size": 120})
    for number in range(16):
        write_release(tmp_path / str(number), "fedgl.Globals", body)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
