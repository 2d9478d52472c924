"""Frames between two processes of one machine, through their socket or in shared memory.

A small frame goes through the socket. A large frame lies in memory that its sender writes once and
its receiver reads in place. This memory has no name (Linux memfd): it is gone with the last process
that holds it, however that process ends. It is sealed before it is passed on, so nobody can change
or cut what is being read.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
from multiprocessing.connection import Connection
from typing import Any

from securefg.protocol.codec import Body

if os.name == "posix":
    import fcntl

LARGE = 2**18
"""Bytes from which on mapping costs less than two copies through a socket."""

_CAN_SHARE = hasattr(os, "memfd_create")


def send(pipe: Connection, header: dict[str, Any], blob: Body = b"") -> None:
    """Send a header and a blob. A large blob goes through shared memory."""
    shared = _CAN_SHARE and len(blob) >= LARGE
    pipe.send_bytes(json.dumps({"shared": shared, "header": header}, allow_nan=False).encode())
    if not shared:
        pipe.send_bytes(blob)
        return
    memory = _write_memory(blob)
    try:
        with _pipe_socket(pipe) as line:
            socket.send_fds(line, [b"\0"], [memory])
    finally:
        os.close(memory)


def receive(pipe: Connection) -> tuple[dict[str, Any], Body]:
    """Return a header and its blob, which cannot be written to. Memory goes back with its last
    view."""
    message_head = json.loads(pipe.recv_bytes())
    if not message_head["shared"]:
        return message_head["header"], pipe.recv_bytes()
    with _pipe_socket(pipe) as line:
        _, memories, *_ = socket.recv_fds(line, 1, 1)
    if not memories:
        raise EOFError  # the other side ended between a header and its blob
    try:
        return message_head["header"], memoryview(
            mmap.mmap(memories[0], 0, access=mmap.ACCESS_READ)
        )
    finally:
        os.close(memories[0])


def _write_memory(blob: Body) -> int:
    memory = os.memfd_create("securefg-frame", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        rest = memoryview(blob)
        while rest:
            rest = rest[os.write(memory, rest) :]
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(memory)
        raise
    return memory


@contextlib.contextmanager
def _pipe_socket(pipe: Connection) -> Any:
    """Return a pipe's socket, which alone can carry descriptors."""
    with socket.socket(fileno=os.dup(pipe.fileno())) as line:
        yield line
