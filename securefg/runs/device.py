"""The device of a run: `auto` takes a GPU once it has given the CPU's results here."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch

from securefg.data.sources import cache_folder
from securefg.foundation.errors import ConfigError
from securefg.foundation.versions import list_versions


def choose_device(wanted: str) -> torch.device:
    """Return the device. `auto` is the first GPU if `securefg doctor` has proved it, else the
    CPU."""
    has_cuda = torch.cuda.is_available()
    if wanted == "auto":
        wanted = "cuda" if has_cuda and proof_file(find_gpu()).is_file() else "cpu"
    if wanted.startswith("cuda"):
        if not has_cuda:
            raise ConfigError(
                f"device: {wanted!r}, but PyTorch finds no GPU here; allowed: auto, cpu"
            )
        use_deterministic_kernels()
    return torch.device(wanted)


def use_deterministic_kernels() -> None:
    """Ask PyTorch for kernels that give the same bits each time. A kernel without such a form warns
    and runs all the same, so equal bits are not promised on a GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)


def find_gpu() -> str:
    """Return the first GPU, as PyTorch names it."""
    return torch.cuda.get_device_name(0)


def proof_file(device: str) -> Path:
    """Return the file that proves these versions on this device. An update asks for a new proof."""
    about = f"{device} {torch.version.cuda} {sorted(list_versions().items())}"
    return cache_folder() / "proved" / hashlib.sha256(about.encode()).hexdigest()[:16]
