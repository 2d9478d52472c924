"""Frames are FLARE's to the byte, and a large one is read where it lies."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.sfm.constants import Types
from nvflare.fuel.f3.sfm.prefix import Prefix
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

from securefg.flare.guard import repairs


class Wire:
    """A connection that keeps what is sent."""

    name = "wire"

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_frame(self, frame: Any) -> None:
        self.sent.append(bytes(frame))


def framed(send: Any, headers: dict[str, Any] | None, payload: Any) -> bytes:
    wire = Wire()
    connection = SfmConnection(wire, Endpoint("me"))
    send(connection, Prefix(0, 0, Types.DATA, 0, 0, 1, 2, 0), headers, payload)
    assert connection.get_send_stall_seconds() == 0
    (frame,) = wire.sent
    return frame


@pytest.mark.parametrize("headers", [None, {}, {"topic": "ask", "sm__id": 7}])
@pytest.mark.parametrize("payload", [None, b"", b"x", memoryview(b"y" * 100_000)])
def test_a_frame_is_flares_to_the_byte(headers: dict[str, Any] | None, payload: Any) -> None:
    flares = framed(SfmConnection.send_frame, headers, payload)
    assert framed(repairs.send_frame, headers, payload) == flares


@pytest.mark.parametrize(("size", "in_place"), [(10, False), (repairs.LARGE, True)])
def test_a_large_frame_is_read_where_it_lies(
    size: int, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((SfmConnection, "send_frame"), (SocketConnection, "read_frame")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    repairs.make_frames_without_copies()
    frame = framed(SfmConnection.send_frame, {"topic": "ask"}, b"z" * size)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = object.__new__(SocketConnection)
        connection.sock, connection.name = ours, "line"
        sender = threading.Thread(target=theirs.sendall, args=(frame,))
        sender.start()
        found = connection.read_frame()
        sender.join()
    assert isinstance(found, memoryview) is in_place
    assert found == frame


def test_a_connection_that_fails_is_not_said_to_be_sending() -> None:
    class Broken(Wire):
        def send_frame(self, frame: Any) -> None:
            raise OSError("gone")

    connection = SfmConnection(Broken(), Endpoint("me"))
    with pytest.raises(OSError, match="gone"):
        repairs.send_frame(connection, Prefix(0, 0, Types.DATA, 0, 0, 1, 2, 0), None, b"x")
    assert connection.get_send_stall_seconds() == 0
    assert not connection.lock.locked()


@pytest.mark.parametrize("is_stopped", [True, False])
def test_connection_made_after_stop_is_not_read(
    is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLARE's session would wait for ever for the thread that reads it."""
    monkeypatch.setattr(SocketConnection, "read_loop", SocketConnection.read_loop)
    repairs.drop_late_connections()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = object.__new__(SocketConnection)
        connection.sock, connection.name, connection.closing = ours, "line", False
        connection.connector = SimpleNamespace(stopped=threading.Event())
        if is_stopped:
            connection.connector.stopped.set()
        reader = threading.Thread(target=connection.read_loop, daemon=True)
        reader.start()
        reader.join(1.0)
        assert reader.is_alive() is not is_stopped
        theirs.shutdown(socket.SHUT_RDWR)
        reader.join(5.0)
        assert not reader.is_alive()
