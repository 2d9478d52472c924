"""Where a run computes: `auto` takes a GPU once it has given the CPU's results here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from securefg.data.sources import cache_folder
from securefg.foundation.errors import ConfigError
from securefg.foundation.versions import versions


def choose_device(wanted: str) -> torch.device:
    """`auto` is the first GPU where `securefg doctor` has proved it, else the CPU."""
    found = torch.cuda.is_available()
    if wanted == "auto":
        return torch.device("cuda" if found and proof(gpu()).is_file() else "cpu")
    if wanted.startswith("cuda") and not found:
        raise ConfigError(f"device: {wanted!r}, but PyTorch finds no GPU here; allowed: auto, cpu")
    return torch.device(wanted)


def gpu() -> str:
    """The first GPU, as PyTorch names it."""
    return torch.cuda.get_device_name(0)


def proof(device: str) -> Path:
    """The file that says so, of these versions on this device; an update asks for a new one."""
    about = f"{device} {torch.version.cuda} {sorted(versions().items())}"
    return cache_folder() / "proved" / hashlib.sha256(about.encode()).hexdigest()[:16]
