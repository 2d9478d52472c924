"""Where the raw files of a published dataset are found, or fetched from.

The layout is that of the PyTorch Geometric loaders, so one folder serves both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from securefg.data.cache import cache_folder
from securefg.foundation.errors import DataError

_PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
_BY_HAND = {"acm": "SDCN", "wiki": "TADW"}


def locate(name: str, files: Sequence[str], root: Path | None) -> Path:
    """The folder that holds `files`: `root`, else SECUREFG_DATA, else a download in the cache."""
    given = root or (Path(env) if (env := os.environ.get("SECUREFG_DATA")) else None)
    if given is not None and _holds(given, files):
        return given
    fetched = cache_folder() / "raw"
    if all((fetched / file).is_file() for file in files):
        return fetched
    return _fetched(name, files, given)


def _holds(folder: Path, files: Sequence[str]) -> bool:
    """All of the files or none; some of them is a fault to be told, not to be worked around."""
    missing = [file for file in files if not (folder / file).is_file()]
    if missing and len(missing) < len(files):
        there = len(files) - len(missing)
        raise DataError(f"{folder / missing[0]}: missing, though {there} of its files are there")
    return not missing


def _fetched(name: str, files: Sequence[str], given: Path | None) -> Path:
    """Download beside the target and move the files over once all are there."""
    if name in _BY_HAND:
        way = f"there is no loader to download it: its files are in the {_BY_HAND[name]} repository"
        raise _unavailable(name, files, given, way)
    target = cache_folder() / "raw"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as temporary:
            _download(name, Path(temporary))
            for file in files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(temporary) / file, target / file)
    except Exception as error:
        # The loader raises what its network library raises; for the user all of it means "no".
        reason = str(error).partition("\n")[0] or type(error).__name__
        way = f"or allow the download, which failed: {reason}"
        raise _unavailable(name, files, given, way) from error
    return target


def _download(name: str, root: Path) -> None:
    # Imported here because it takes seconds and a data root makes it unnecessary.
    from torch_geometric.datasets import Planetoid, WikiCS, WikipediaNetwork

    if name in _PLANETOID:
        Planetoid(str(root / "Planetoid"), _PLANETOID[name])
    elif name == "wikics":
        WikiCS(str(root / "WikiCS"), is_undirected=True)
    else:
        WikipediaNetwork(str(root / "WikipediaNetwork"), name, geom_gcn_preprocess=True)


def _unavailable(name: str, files: Sequence[str], given: Path | None, way: str) -> DataError:
    looked = f"{given} has no {files[0]}" if given else "neither data.root nor SECUREFG_DATA is set"
    return DataError(
        f"dataset {name!r}: {looked}; set data.root or SECUREFG_DATA to a folder with {files[0]}\n"
        f"{way}"
    )
