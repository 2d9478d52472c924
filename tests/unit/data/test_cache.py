from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.data.dataset import Dataset, no_split
from securefg.data.sources import cache_folder, cached_dataset


class Reader:
    """Counts how often the raw file was read."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Dataset:
        self.calls += 1
        masks = torch.tensor([[True, False], [False, True]])
        edges = torch.tensor([[0], [1]])
        labels = torch.tensor([0, 1])
        return Dataset(torch.eye(2), edges, labels, masks, ~masks, no_split(2), directed=True)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text("raw")
    return path


def stored_copy(cache: Path) -> Path:
    (copy,) = (cache / "processed").iterdir()
    return copy


def test_the_second_load_reads_the_copy_and_finds_the_same(raw: Path):
    reader = Reader()
    first, second = (cached_dataset("toy", [raw], reader) for _ in range(2))
    assert reader.calls == 1
    assert second.directed
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, second.tensors()[name])


def test_a_changed_raw_file_makes_a_new_copy(raw: Path):
    reader = Reader()
    cached_dataset("toy", [raw], reader)
    raw.write_text("raw, longer")
    cached_dataset("toy", [raw], reader)
    assert reader.calls == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_copy_is_made_again_silently(raw: Path, own_cache: Path, damage: str):
    reader = Reader()
    cached_dataset("toy", [raw], reader)
    copy = stored_copy(own_cache)
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes({"cut": content[:-9], "flip": content, "empty": b""}[damage])
    again = cached_dataset("toy", [raw], reader)
    assert reader.calls == 2
    assert torch.equal(again.features, torch.eye(2))
    cached_dataset("toy", [raw], reader)
    assert reader.calls == 2


def test_no_temporary_file_stays_behind(raw: Path, own_cache: Path):
    cached_dataset("toy", [raw], Reader())
    assert stored_copy(own_cache).suffix == ".safetensors"


def test_a_cache_that_cannot_be_written_is_done_without(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECUREFG_CACHE", str(raw))
    assert cached_dataset("toy", [raw], Reader()).num_nodes == 2


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECUREFG_CACHE", "/own")
    assert cache_folder() == Path("/own")
    monkeypatch.delenv("SECUREFG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/securefg")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "securefg"
