"""The independent verifier agrees to the bit with real clients and a real server."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from securefg.foundation.errors import RoundAborted
from securefg.protocol.messages import Message
from securefg.secagg.messages import Agreed, Keys, Ready, Revealed, Shares
from tests.independent import primitives, verify_committee, verify_disputes, verify_session
from tests.independent.primitives import Stream
from tests.independent.verify_disputes import find_parameters
from tests.independent.verify_session import Disagrees, Verifier
from tests.unit.secagg.session_world import CONFIG_HASH, Upload, World, world

STAGES: tuple[type[Message], ...] = (Keys, Shares, Ready, Upload, Agreed, Revealed)
Heard = list[tuple[int, Message, Message]]


def seed_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def rows_of(value: Any) -> Any:
    """Return a field as numbers or as rows of bytes."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype != torch.uint8:
        return value.tolist()
    if value.dim() == 1:
        return [value.numpy().tobytes()]
    return [row.numpy().tobytes() for row in value]


def fields_of(message: Message, number_rows: tuple[str, ...] = ("bad", "which")) -> dict[str, Any]:
    """Return a message of one client: its own row of every array that has a row per client."""
    field_values = {}
    for name, value in message.values().items():
        is_nested = isinstance(value, torch.Tensor) and value.dim() == 3
        if name in number_rows and isinstance(value, torch.Tensor):
            field_values[name] = value.tolist()
        elif name == "shares" and isinstance(value, torch.Tensor):
            field_values[name] = [rows_of(value[0])]
        else:
            field_values[name] = rows_of(value[0] if is_nested else value)
    return field_values


class Watched:
    """A world whose clients draw from seeds, and whose messages the verifier follows."""

    def __init__(self, num_clients: int, name: str, **settings: Any) -> None:
        self.bed: World = world(num_clients, malicious=True, **settings)
        seeds = [seed_of(f"{name} client {n}") for n in range(num_clients)]
        for host, seed in zip(self.bed.hosts, seeds, strict=True):
            host._random = Stream(seed).read
        about = (num_clients, self.bed.settings.corrupt, self.bed.settings.dropout)
        sizes = range(max(3, num_clients // 2), num_clients + 1)
        parameters = {size: find_parameters(size, *about) for size in sizes}
        identities = [seed_of(f"identity {n}") for n in range(num_clients)]
        suite = getattr(self.bed.settings, "keys", "classical")
        self.verifier = Verifier(CONFIG_HASH.encode(), suite, identities, seeds, parameters)
        self.heard: Heard = []
        answer = self.bed.answer

        def watched(host: int, request: Message, numbers: list[int], *more: Any) -> Message:
            said = answer(host, request, numbers, *more)
            self.heard.append((numbers[0], request, said))
            return said

        self.bed.answer = watched  # type: ignore[method-assign]

    def hold_session(self, drops: dict[type[Message], set[int]]) -> bool:
        """Hold one session and verify all of it; return whether a sum was opened."""
        self.bed.drops, self.heard[:] = drops, []
        try:
            sums = self.bed.sums()
        except RoundAborted:
            sums = None
        self.verifier.begin(self.bed.round, Upload.kind)
        self.follow_all(self.heard)
        if sums is None:
            return False
        for name, found in sums.items():
            opened = self.verifier.open_sum(name)
            plain = self.bed.plain_sums(self.verifier.survivors)[name]
            assert opened.tobytes() == found.tobytes() == plain.tobytes()
        return True

    def follow_all(self, heard: Heard) -> None:
        for one in heard:
            self.follow(*one)

    def follow(self, number: int, request: Message, reply: Message) -> None:
        kind = request.kind.partition(".")[2]
        if kind != "Ask":
            self.verifier.follow(number, kind, fields_of(request), fields_of(reply))
            return
        for name in reply.declarations:
            plain = self.bed.rows[name][number]
            masked = getattr(reply, name)[0].numpy().view(plain.dtype)
            self.verifier.check_upload(number, name, plain, masked)


def drawn_drops(rng: np.random.Generator, num_clients: int) -> dict[type[Message], set[int]]:
    """Let up to a third of the clients fall silent, each from a stage on."""
    away = rng.permutation(num_clients)[: rng.integers(0, num_clients // 3 + 1)].tolist()
    drops: dict[type[Message], set[int]] = {}
    for client in away:
        drops.setdefault(STAGES[rng.integers(len(STAGES))], set()).add(client)
    return drops


def verify_many(seed: int, wanted: int, **settings: Any) -> int:
    """Return in how many opened sessions with drop-outs the verifier agreed."""
    rng, agreed, attempt = np.random.default_rng(seed), 0, 0
    while agreed < wanted:
        attempt += 1
        assert attempt < 3 * wanted + 10
        num_clients = int(rng.integers(4, 10))
        watched = Watched(num_clients, f"{seed} {attempt}", **settings)
        for _ in range(2):
            drops = drawn_drops(rng, num_clients)
            agreed += watched.hold_session(drops) and bool(drops)
    return agreed


def test_verifier_agrees_on_ten_sessions_with_dropouts() -> None:
    assert verify_many(1, 10) >= 10


@pytest.mark.slow
def test_verifier_agrees_on_hundred_sessions_with_dropouts() -> None:
    assert verify_many(2, 100) >= 100


def test_verifier_agrees_on_sessions_with_classical_keys() -> None:
    assert verify_many(7, 5, keys="classical") >= 5


@pytest.mark.slow
def test_verifier_agrees_on_hundred_sessions_with_classical_keys() -> None:
    assert verify_many(8, 100, keys="classical") >= 100


def test_verifier_agrees_in_the_larger_ring() -> None:
    assert verify_many(3, 2, bits=64) >= 2


def test_verifier_agrees_on_a_sparse_graph() -> None:
    watched = Watched(36, "sparse")
    assert watched.hold_session({Upload: {3, 17}, Revealed: {5}})
    assert watched.verifier.places.degree == 32
    assert watched.hold_session({})


def test_verifier_with_changed_message_disagrees() -> None:
    """Every array of every reply matters: one flipped bit of any of them is noticed."""
    watched = Watched(4, "changed")
    watched.bed.drops = {Upload: {2}}
    watched.bed.sums()
    heard, noticed = watched.heard, 0
    for at, (number, request, reply) in enumerate(heard):
        for name, value in reply.values().items():
            if isinstance(value, torch.Tensor) and value.numel():
                changed = value.clone()
                changed.view(torch.uint8).view(-1)[-1] ^= 1
                other = type(reply)(**{**reply.values(), name: changed})
                require_disagreement([*heard[:at], (number, request, other), *heard[at + 1 :]])
                noticed += 1
    assert noticed > 30


def require_disagreement(heard: Heard) -> None:
    fresh = Watched(4, "changed")
    fresh.verifier.begin(1, Upload.kind)
    with pytest.raises(Disagrees):
        fresh.follow_all(heard)


@pytest.mark.parametrize("module", [primitives, verify_session, verify_disputes, verify_committee])
def test_verifier_shares_no_code_with_securefg(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    nodes = list(ast.walk(tree))
    names = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    allowed = {
        *("__future__", "collections", "cryptography", "dataclasses", "fractions", "hashlib"),
        *("hmac", "math", "numpy", "tests.independent.primitives", "typing"),
    }
    strange = [n for n in names if n not in allowed and n.partition(".")[0] not in allowed]
    assert strange == []
