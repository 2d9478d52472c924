"""The site's own samples, added to a recording so that the audit can score its attacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefg.flower.gate import NODE_FILE
from securefg.flower.recorded import NODES_FILE
from securefg.foundation.errors import ConfigError
from securefg.foundation.json_text import read_json
from securefg.foundation.npz import read_npz

Samples = NDArray[Any]


def add_truth(
    exchange: str | Path,
    home: str | Path,
    samples: Samples,
    labels: Samples | None = None,
) -> int:
    """Add the samples of the site with this folder to a recording. Return the client's number.

    The samples are written below `exchange/private`: keep such a folder at the site.
    """
    exchange = Path(exchange)
    client = _client_of(exchange, Path(home))
    folder = exchange / "private"
    folder.mkdir(mode=0o700, exist_ok=True)
    _add_array(folder / "truth.npz", client, np.asarray(samples))
    if labels is not None:
        _add_array(folder / "labels.npz", client, np.asarray(labels))
    return client


def _client_of(exchange: Path, home: Path) -> int:
    node = _read_mapping(home / NODE_FILE).get("node")
    number = _read_mapping(exchange / NODES_FILE).get(str(node))
    if type(number) is not int:
        raise ConfigError(f"{exchange}: found no client for node {node}; expected its uploads")
    return number


def _read_mapping(path: Path) -> Mapping[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: found {json.dumps(found)[:40]}; expected an object")
    return found


def _add_array(path: Path, client: int, array: Samples) -> None:
    held: dict[str, Any] = read_npz(path) if path.is_file() else {}
    np.savez_compressed(path, **{**held, str(client): array})
