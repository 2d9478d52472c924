"""What it costs to carry a frame to a host's process and back: shared memory over a socket.

    python benchmarks/shared_frames.py

A process sends back what it gets, as hosts of the `processes` engine do; the same bytes go through
the socket and through shared memory in turns. CPU seconds (user and system) of both processes; the
bytes that come back are checked.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
from multiprocessing.connection import Connection

from limits import Row

from securefg.engines import pipes

SIZES = (10_000_000, 100_000_000)
NEVER = 2**62


def echo(end: socket.socket, large: int) -> None:
    pipes.LARGE = large
    line = Connection(end.detach())
    while True:
        header, blob = pipes.receive(line)
        if header["do"] == "close":
            return
        pipes.send(line, header, blob)


def seconds(large: int, size: int, repeats: int) -> float:
    """CPU seconds of one way there and back, of both processes."""
    pipes.LARGE, blob = large, os.urandom(size)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        echo(theirs, large)
        os._exit(0)
    theirs.close()
    line, before = Connection(ours.detach()), _cpu()
    for _ in range(repeats):
        pipes.send(line, {"do": "answer"}, blob)
        _, back = pipes.receive(line)
    own_seconds = _cpu() - before
    if bytes(back) != blob:
        raise SystemExit("other bytes came back")
    pipes.send(line, {"do": "close"})
    theirs_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.waitpid(child, 0)
    theirs_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (own_seconds + _total(theirs_after) - _total(theirs_before)) / repeats


def _cpu() -> float:
    return _total(resource.getrusage(resource.RUSAGE_SELF))


def _total(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def rows(repeats: int = 5) -> list[Row]:
    name = "100 MB to a host's process and back, CPU over a socket"
    return [
        Row(name, 0.75, seconds(2**18, SIZES[1], repeats) / seconds(NEVER, SIZES[1], repeats), "x")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for size in SIZES:
        through = seconds(NEVER, size, repeats)
        shared = seconds(2**18, size, repeats)
        print(
            f"{size / 1e6:.0f} MB there and back: socket {through:.3f} s, "
            f"shared {shared:.3f} s CPU, ratio {shared / through:.2f}"
        )


if __name__ == "__main__":
    main()
