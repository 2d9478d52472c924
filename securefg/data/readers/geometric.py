"""Datasets that torch-geometric downloads and parses: Planetoid, WikipediaNetwork and WikiCS.

torch-geometric unpickles Planetoid's files, and a pickle can run code. Every raw file is therefore
compared with the SHA-256 of the published file (`SHA256SUMS`) before torch-geometric opens it. Only
WikiCS, a JSON file, has no listed digest. torch-geometric works on a copy in a temporary folder,
because it writes beside the raw files. It is imported only here: the import takes seconds, and a
stored copy of the dataset makes it unnecessary.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from torch import Tensor

from securefg.data.dataset import Dataset
from securefg.data.graph import sorted_edges, undirected
from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.npz import FREE
from securefg.foundation.quoting import shortened

SUMS: Final = Path(__file__).with_name("SHA256SUMS")


class Loader(NamedTuple):
    """A class of `torch_geometric.datasets`, its folder below the data root, and its arguments."""

    kind: str
    folder: str
    arguments: Mapping[str, Any]


def _make_loader(kind: str, name: str, folder: str = "", **others: Any) -> Loader:
    return Loader(kind, folder or kind, {"name": name, **others})


LOADERS: Mapping[str, Loader] = MappingProxyType(
    {
        **{
            name.lower(): _make_loader("Planetoid", name) for name in ("Cora", "CiteSeer", "PubMed")
        },
        **{
            name: _make_loader("WikipediaNetwork", name, geom_gcn_preprocess=True)
            for name in ("chameleon", "squirrel")
        },
        "wikics": Loader("WikiCS", "WikiCS", {"is_undirected": True}),
        **{
            name: _make_loader("LINKXDataset", name, "LINKX")
            for name in ("cornell5", "johnshopkins55", "amherst41", "reed98")
        },
        "tolokers": _make_loader("HeterophilousGraphDataset", "tolokers"),
    }
)
"""Every dataset that torch-geometric can download, by our name."""


def files(name: str) -> tuple[str, ...]:
    """Return the raw files of a dataset, as paths below the data root."""
    if name == "wikics":
        return ("WikiCS/raw/data.json",)
    start = f"{LOADERS[name].folder}/{LOADERS[name].arguments['name']}/"
    return tuple(file for file in published_digests() if file.startswith(start))


def published_digests() -> dict[str, str]:
    """Return the SHA-256 of every published file, by its path below the data root."""
    lines = SUMS.read_text(encoding="utf-8").splitlines()
    return {file: digest for digest, file in (line.split("  ") for line in lines)}


def read(root: Path, name: str) -> Dataset:
    """Read a dataset through torch-geometric, after a check of its files."""
    with tempfile.TemporaryDirectory() as copy:
        for file in files(name):
            target = Path(copy, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_checked_bytes(root, file))
        try:
            data = _make_dataset(name, Path(copy), parse=True)[0]
            return _as_dataset(data, directed=LOADERS[name].kind == "WikipediaNetwork")
        except Exception as error:
            # A damaged file fails in any way that a parser can fail. All mean the same here.
            found = shortened(" ".join(f"{type(error).__name__} {error}".split()), 200)
            raise DataError(
                f"{root / files(name)[0]}: found {found}; expected the published {name}"
            ) from error


def download(name: str, root: Path) -> None:
    """Download the raw files below `root` without parsing them."""
    _make_dataset(name, root, parse=False)


def _checked_bytes(root: Path, file: str) -> bytes:
    """Return the bytes of a file that is the published one."""
    path = root / file
    try:
        content = read_bounded(path, FREE)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: found {error}; expected a readable file") from error
    expected = published_digests().get(file)
    found = hashlib.sha256(content).hexdigest()
    if expected not in (None, found):
        raise DataError(
            f"{path}: found SHA-256 {found[:16]}...; expected {str(expected)[:16]}..., the "
            "published file; download it again, or read your own graph with data.name: folder"
        )
    return content


def _make_dataset(name: str, root: Path, *, parse: bool) -> Any:
    """Return torch-geometric's dataset; without `parse` its files are downloaded and no more."""
    with _silence_warnings():
        import torch_geometric.datasets

        loader = LOADERS[name]
        kind: Any = getattr(torch_geometric.datasets, loader.kind)
        if not parse:
            nothing = lambda *_, **__: None  # noqa: E731
            kind = type(loader.kind, (kind,), {"_process": nothing, "load": nothing})
        return kind(str(root / loader.folder), **loader.arguments)


@contextlib.contextmanager
def _silence_warnings() -> Iterator[None]:
    """Silence torch-geometric's progress lines and the warnings of old pickles."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _as_dataset(data: Any, directed: bool) -> Dataset:
    count = len(data.y)
    if data.edge_index.numel() and not 0 <= data.edge_index.min() <= data.edge_index.max() < count:
        raise ValueError(f"an edge to a node outside 0 to {count - 1}")
    train, val, test = (
        _split_rows(mask, data.train_mask)
        for mask in (data.train_mask, data.val_mask, data.test_mask)
    )
    clean = sorted_edges if directed else undirected
    return Dataset(data.x, clean(data.edge_index, count), data.y, train, val, test, directed)


def _split_rows(mask: Tensor, train: Tensor) -> Tensor:
    """Return a mask with a row for every split; WikiCS has one test set for all splits."""
    rows = mask[None] if mask.dim() == 1 else mask.T
    return rows.expand(1 if train.dim() == 1 else train.shape[1], -1).contiguous()
