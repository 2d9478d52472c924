"""The versions of NVIDIA FLARE that the guard was reviewed for."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Final

from securefg.foundation.errors import ConfigError

SUPPORTED: Final = ">=2.9.0,<2.10"
"""As `pyproject.toml` has it: a later FLARE may open doors that the guard does not know."""

_REVIEWED: Final = re.compile(r"2\.9\.[0-9]+")


def is_supported(version: str) -> bool:
    """Return whether the guard was reviewed for a version; a preview of one was not reviewed."""
    return _REVIEWED.fullmatch(version) is not None


def require_supported() -> None:
    """Raise `ConfigError` unless the installed FLARE and its package are of a supported version."""
    import nvflare

    for version in (nvflare.__version__, metadata.version("nvflare")):
        if not is_supported(version):
            raise ConfigError(
                f"nvflare: found {version}; expected {SUPPORTED}, the versions that the guard was "
                f"reviewed for: pip install 'nvflare{SUPPORTED}'"
            )
