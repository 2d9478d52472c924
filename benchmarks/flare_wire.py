"""What somebody on the wire sees of a run over three sites: sizes and times, no field's content.

    python benchmarks/flare_wire.py FOLDER

Captures the federation's own port on loopback (dumpcap, tshark; needs the right to capture), and
looks in the bytes for what the run is known to have sent: names of messages and fields, headers of
the encoding, and pieces of every array in the transcript. As a control that the search would find
them, the same is looked for on FLARE's internal port, between the two processes of the server on
its own machine, which is not encrypted. Exits 1 where the wire shows something, or the control
nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from securefg.flare.local import run_locally
from securefg.protocol import codec
from securefg.protocol.transcript import read_transcript
from securefg.run.assembly import prepare
from securefg.run.folder import RunFolder
from securefg.run.observing import Silent
from tests.small import config

PIECE = 24


def main(root: Path) -> int:
    parsed = config(root / "run", "engine.name=flare", "training.rounds=3")
    folder = RunFolder.create(parsed, lambda path: None)
    captures: dict[str, subprocess.Popen[bytes]] = {}
    threading.Thread(target=capture, args=(folder.path, root, captures), daemon=True).start()
    run_locally(prepare(parsed), folder, Silent())
    time.sleep(1)
    for process in captures.values():
        process.terminate()
        process.wait()
    pieces = known(folder)
    failed = False
    for name, wanted in (("wire", False), ("internal", True)):
        raw = (root / f"{name}.pcapng").read_bytes()
        found = Counter(kind for kind, piece in pieces if piece in raw)
        total = Counter(kind for kind, _ in pieces)
        words = ", ".join(f"{found[kind]} of {total[kind]} {kind}" for kind in total)
        print(f"{name}: {len(raw)} bytes captured; found {words}")
        failed |= bool(found) != wanted
    print(f"wire, in the protocols' own words: {protocols(root / 'wire.pcapng')}")
    size = folder.summary().bytes
    print(f"the run's own count: up {size['up']}, down {size['down']}")
    return int(failed)


def capture(run: Path, root: Path, captures: dict[str, subprocess.Popen[bytes]]) -> None:
    """Start as soon as the ports are known: the outer one before anybody connects to it."""
    facts, log = (
        run / "private/flare/kits/federation.json",
        run / "private/flare/logs/localhost.log",
    )
    while not facts.exists():
        time.sleep(0.01)
    captures["wire"] = dump(json.loads(facts.read_text())["port"], root / "wire.pcapng")
    while True:
        told = re.search(r"internal listener for tcp://127\.0\.0\.1:(\d+)", _read(log))
        if told:
            captures["internal"] = dump(int(told[1]), root / "internal.pcapng")
            return
        time.sleep(0.05)


def dump(port: int, path: Path) -> subprocess.Popen[bytes]:
    command = ["dumpcap", "-q", "-i", "lo", "-f", f"tcp port {port}", "-w", str(path)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def known(folder: RunFolder) -> list[tuple[str, bytes]]:
    """Pieces that the run certainly sent."""
    pieces = {("names", name) for name in (b"fedgl.Update", b"fedgl.Globals", b"data_offsets")}
    for record in read_transcript(folder.transcript):
        if record.body:
            for value in codec.decode_fields(record.body).values():
                if hasattr(value, "numpy") and value.numel() >= PIECE:
                    raw = value.contiguous().numpy().tobytes()
                    middle = raw[len(raw) // 2 : len(raw) // 2 + PIECE]
                    if len(set(middle)) > PIECE // 2:
                        pieces.add(("array pieces", middle))
    return sorted(pieces)


def protocols(path: Path) -> str:
    command = ["tshark", "-r", str(path), "-q", "-z", "io,phs"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "; ".join(" ".join(line.split()) for line in told.splitlines() if "frames:" in line)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    sys.exit(main(target))
