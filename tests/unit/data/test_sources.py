from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from securefg.data import sources
from securefg.data.readers import geometric, published
from securefg.data.sources import locate_files
from securefg.foundation.errors import DataError

FILES = ("Toy/raw/a", "Toy/raw/b")


@pytest.fixture(autouse=True)
def no_data_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECUREFG_DATA", raising=False)


def lay(root: Path, files=FILES) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    return root


def no_network(name: str, root: Path) -> None:
    raise ConnectionError("no route to host\nwith a long story")


def test_the_root_setting_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECUREFG_DATA", str(lay(tmp_path / "env")))
    assert locate_files("cora", FILES, lay(tmp_path / "root")) == tmp_path / "root"
    assert locate_files("cora", FILES, None) == tmp_path / "env"


def test_what_is_nowhere_is_downloaded_once(own_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "download", lambda name, root: lay(root))
    assert locate_files("cora", FILES, None) == own_cache / "raw"
    monkeypatch.setattr(sources, "download", no_network)
    assert locate_files("cora", FILES, None) == own_cache / "raw"
    assert sorted(path.name for path in (own_cache / "raw").iterdir()) == ["Toy"]


def test_a_failed_download_is_told_in_two_lines_that_say_both_ways(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sources, "download", no_network)
    with pytest.raises(DataError) as caught:
        locate_files("cora", FILES, None)
    first, second = str(caught.value).splitlines()
    assert "data.root" in first
    assert "SECUREFG_DATA" in first
    assert "Toy/raw/a" in first
    assert second == "or allow the download, which failed: no route to host"


def test_a_root_without_the_dataset_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources, "download", no_network)
    with pytest.raises(DataError, match=f"{tmp_path} has no Toy/raw/a"):
        locate_files("cora", FILES, tmp_path)


def test_a_half_filled_folder_names_the_missing_file(tmp_path: Path):
    lay(tmp_path, FILES[:1])
    with pytest.raises(DataError, match="Toy/raw/b: missing, though 1 of its files"):
        locate_files("cora", FILES, tmp_path)


def test_a_half_filled_cache_is_filled_again(own_cache: Path, monkeypatch: pytest.MonkeyPatch):
    lay(own_cache / "raw", FILES[:1])
    monkeypatch.setattr(sources, "download", lambda name, root: lay(root))
    assert locate_files("cora", FILES, None) == own_cache / "raw"


def test_an_interrupted_download_leaves_nothing(own_cache: Path, monkeypatch: pytest.MonkeyPatch):
    def half(name: str, root: Path) -> None:
        lay(root, FILES[:1])
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "download", half)
    with pytest.raises(KeyboardInterrupt):
        locate_files("cora", FILES, None)
    assert list((own_cache / "raw").iterdir()) == []


@pytest.mark.parametrize("name", ["acm", "wiki"])
def test_sets_without_a_loader_say_who_publishes_them(name: str):
    with pytest.raises(DataError, match=r"there is no loader .* in the (SDCN|TADW) repository"):
        locate_files(name, FILES, None)


@pytest.mark.parametrize("name", geometric.LOADERS)
def test_download_by_the_library_matches_our_layout(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """The library's classes say where their files lie; nothing is fetched or parsed."""
    import torch_geometric.datasets

    def fake(self: Any) -> None:
        for path in self.raw_paths:
            Path(path).write_text("downloaded")

    kind = getattr(torch_geometric.datasets, geometric.LOADERS[name].kind)
    monkeypatch.setattr(kind, "download", fake)
    files = (published if name in published.FILES else geometric).files(name)
    assert locate_files(name, files, None) == own_cache / "raw"
    assert all((own_cache / "raw" / file).is_file() for file in files)
