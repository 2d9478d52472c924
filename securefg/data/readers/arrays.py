"""NPZ archives of plain arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import DataError


def read_arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    """Every array of the archive; pickled objects are refused."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: found {error}; wanted an npz archive of plain arrays") from error
