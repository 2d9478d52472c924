"""What this ran on: the versions that a result depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version

PACKAGES = ("securefg", "torch", "torch-geometric", "numpy", "scipy", "dp-accounting")


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
