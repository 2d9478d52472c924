"""Where the seconds of a step go, with four real sites on loopback under mutual TLS.

    python benchmarks/flare_latency.py FOLDER [--large]

Runs `tests.e2e.echo`, whose clients send back what they get, at several sizes, and times at the
server (whole step), at the site (work) and, alone, signing and hashing. `--large` adds 300 MB.
For comparison: FLARE's own tasks, polled, took 2.0-2.4 s per step at any size up to 10 MB.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import checkout  # noqa: F401  (before what lies in tests)
from limits import Row

from securefg.flare.launch import start
from securefg.site.certificates import Root, Signer
from securefg.site.packets import REQUEST, Route, open_packet, seal_packet
from tests.small import config

SIZES = (1_000, 1_000_000, 10_000_000)
LARGE = 300_000_000
ROUNDS = 5

Facts = Mapping[str, float]


def step(root: Path, size: int) -> tuple[Facts, Path, float]:
    """One run: what the server measured, the kits, and the seconds of the whole command."""
    parsed = config(
        root / str(size),
        f"method={{name: tests.e2e.echo, size: {size // 4}}}",
        "partition.shares=[0.5, 0.5, 0.5, 0.5]",
        f"training.rounds={1 if size > 100_000_000 else ROUNDS}",
        "output.transcript_every=0",
        "output.checkpoint_every=1000",
        "engine.name=flare",
    )
    began = time.monotonic()
    folder = start(parsed).folder
    kits = folder.path / "private" / "flare" / "kits"
    return folder.summary().method_facts, kits, time.monotonic() - began


def rows() -> list[Row]:
    """Seconds: for an idle machine."""
    with tempfile.TemporaryDirectory() as root:
        facts, _, _ = step(Path(root), LARGE)
    return [Row("300 MB to each of four sites over TLS and back", 30, facts["step_seconds"], "s")]


def main(root: Path, large: bool) -> int:
    print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}, 4 sites, each way; medians")
    for size in (*SIZES, *((LARGE,) if large else ())):
        facts, kits, whole = step(root, size)
        print(
            f"{size / 1e6:10.3f} MB  step {facts['step_seconds']:.3f} s, of it at the site "
            f"{facts['site_seconds']:.3f} s; signing and checking "
            f"{signing(kits, size):.4f} s; the whole command {whole:.1f} s",
            flush=True,
        )
    return 0


def signing(kits: Path, size: int) -> float:
    """One seal and one check of a packet of this size, as both ends do."""
    signer, root = (
        Signer.load(kits / "localhost" / "startup"),
        Root.load(kits / "site-1" / "startup"),
    )
    route, blob = Route("job", "localhost", "site-1", 1), os.urandom(size)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        open_packet(root, REQUEST, route, seal_packet(signer, REQUEST, route, {}, blob))
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--large" in sys.argv))
