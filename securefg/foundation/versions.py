"""The versions that a result depends on."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

PACKAGES = ("securefg", "torch", "torch-geometric", "numpy", "scipy", "dp-accounting")


def list_versions() -> dict[str, str]:
    """Return the versions that a result depends on, by package."""
    return {
        "python": platform.python_version(),
        **{name: _package_version(name) for name in PACKAGES},
    }


@cache
def _package_version(package: str) -> str:
    """Read once: it takes as long as a small run's training."""
    return version(package)
