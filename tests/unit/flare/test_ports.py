"""The port of a server that starts later stays free until it has."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from securefg.flare import processes as ports


def test_no_outgoing_connection_can_take_the_port() -> None:
    first = int(ports.OUTGOING.read_text().split()[0])
    assert all(ports.LEAST <= ports.free_port() < first for _ in range(50))


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        drawn = iter((taken.getsockname()[1] - ports.LEAST, 7))
        monkeypatch.setattr(ports.secrets, "randbelow", lambda below: next(drawn))
        assert ports.free_port() == ports.LEAST + 7


def test_where_the_system_does_not_tell_its_default_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "OUTGOING", tmp_path / "absent")
    assert ports.free_port() < ports.OUTGOING_FROM
