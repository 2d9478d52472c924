"""What a coordinator has of the graph: the server of a method that is entitled to parts of it.

    KIT/local/securefg/coordinator.safetensors     of the server's own, 0600
        edge_index     two rows of node numbers, both directions       `graph`
        known_labels   per node its class; -1 where it is not known    `labels`
        trainers       the clients that hold training labels           `trainers`

A site is told what the server has by the plan's method, and says in its floor whether it takes part
in that (`server_knows`). It cannot check the edges: it trusts the coordinator with them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError, DataError
from securefg.foundation.files import write_atomically
from securefg.methods.base import AnyMethod

FILE = "coordinator.safetensors"
FIELDS = {"graph": "edge_index", "labels": "known_labels", "trainers": "trainers"}


def write_entitled(path: Path, method: AnyMethod, public: PublicInfo) -> None:
    """What the method entitles its server to, and nothing else."""
    held = {name: getattr(public, name).contiguous().cpu() for name in _known_fields(method)}
    if held:
        write_atomically(path, safetensors.torch.save(held))
        path.chmod(0o600)


def read_entitled(path: Path, method: AnyMethod, public: PublicInfo) -> PublicInfo:
    """The public facts with what the coordinator's own file has. Raise where they do not fit."""
    wanted = _known_fields(method)
    if not wanted:
        return public
    if not path.exists():
        raise ConfigError(
            f"{path}: none; {method.name} wants a coordinator that has {', '.join(wanted)}"
        )
    try:
        with safetensors.safe_open(path, "pt") as file:
            names = file.keys()  # it is no mapping
            held = {name: file.get_tensor(name) for name in names}
    except Exception as error:
        raise DataError(f"{path}: not a coordinator's file: {error}") from error
    if set(held) != set(wanted):
        raise DataError(f"{path} has {', '.join(sorted(held))}; wanted {', '.join(wanted)}")
    for name in wanted:
        _check_range(path, name, held[name], public)
    return replace(
        public,
        edge_index=held.get("edge_index"),
        known_labels=held.get("known_labels"),
        trainers=held.get("trainers"),
    )


def _known_fields(method: AnyMethod) -> list[str]:
    return sorted(FIELDS[known] for known in method.server_knows)


def _check_range(path: Path, name: str, node_data: Tensor, public: PublicInfo) -> None:
    shape, low, high = {
        "edge_index": ((2, -1), 0, public.num_nodes),
        "known_labels": ((public.num_nodes,), -1, public.num_classes),
        "trainers": ((public.num_trainers,), 0, public.num_clients),
    }[name]
    fits = node_data.dim() == len(shape) and all(
        size in (-1, have) for size, have in zip(shape, node_data.shape, strict=True)
    )
    if node_data.dtype != torch.int64 or not fits:
        raise DataError(
            f"{path}: {name} is {node_data.dtype} of shape {tuple(node_data.shape)}; "
            f"wanted int64, {shape}"
        )
    if node_data.numel() and not low <= int(node_data.min()) <= int(node_data.max()) < high:
        raise DataError(f"{path}: {name} has numbers outside of {low} to {high - 1}")
