"""Long-lived identities on disk: each host's private halves in a file of its own, for it alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from securefg.protocol.codec import Clients
from securefg.secagg.keys import Identity
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, Secret


def make_identities(folder: Path, hosts: Mapping[str, Clients]) -> list[bytes]:
    """Everybody's public key by client number; hosts without a file get new keys.

    In one organisation's experiment this stands for enrolment, where each party makes its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    roster: dict[int, bytes] = {}
    for name, clients in hosts.items():
        path = folder / f"{name}.keys"
        if not path.exists():
            _write_private(path, SYSTEM_RANDOM(SECRET_BYTES * len(clients)))
        roster |= {n: identity.public for n, identity in load_identities(path, clients).items()}
    return [roster[number] for number in sorted(roster)]


def load_identities(path: Path, clients: Clients) -> dict[int, Identity]:
    raw = path.read_bytes()
    secrets = [raw[i : i + SECRET_BYTES] for i in range(0, len(raw), SECRET_BYTES)]
    pairs = zip(clients.numbers(), secrets, strict=True)
    return {number: Identity(Secret(secret)) for number, secret in pairs}


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)
