"""model.safetensors: what the server released, at the best validation score, as a file.

Arrays are stored as such. The message's kind and its scalars go into the file's metadata, so that
the release can be read back as the message it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_atomically
from securefg.methods.base import AnyMethod
from securefg.protocol import codec
from securefg.protocol.messages import Message


def write_release(path: Path, kind: str, body: bytes) -> None:
    """Store an encoded release. An empty body (no round was finished) gives an empty file."""
    fields = codec.decode_fields(body) if body else {}
    arrays = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
    scalars = {name: value for name, value in fields.items() if name not in arrays}
    # One key: safetensors writes several in any order, and the same release must be the same file.
    facts = {"release": json.dumps({"kind": kind, "scalars": scalars})}
    write_atomically(path, safetensors.torch.save(arrays, metadata=facts))


def read_release(path: Path, method: AnyMethod) -> Message | None:
    """Return the release as a message of its method, or None if the run released nothing."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        release = json.loads(facts["release"])
        kind, scalars = release["kind"], release["scalars"]
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise RunFolderError(f"{path}: found {error!r}; wanted a stored release") from error
    return (
        codec.decode(codec.encode_fields({**arrays, **scalars}), method.message(kind))
        if kind
        else None
    )
