"""The port of a server that starts later stays free until it has."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from securefg.flare import local


def test_no_outgoing_connection_can_take_the_port() -> None:
    first = int(local.OUTGOING.read_text().split()[0])
    assert all(local.LEAST <= local.free_port() < first for _ in range(50))


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        drawn = iter((taken.getsockname()[1] - local.LEAST, 7))
        monkeypatch.setattr(local.secrets, "randbelow", lambda below: next(drawn))
        assert local.free_port() == local.LEAST + 7


def test_where_the_system_does_not_tell_its_default_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "OUTGOING", tmp_path / "absent")
    assert local.free_port() < local.OUTGOING_FROM
