"""What somebody on the wire sees of a run over three sites: sizes and times, no field's content.

    python benchmarks/flare_wire.py FOLDER

All sites reach the server through a line that keeps every byte. In these it looks for what the run
is known to have sent: names of messages and fields, headers of the encoding, and pieces of every
array in the transcript. As a control that the search finds what is there, a stranger sends a known
piece over the same line in plain text during the run. Exits 1 where the wire shows something of the
run, where the planted piece is not found, or where what the sites sent is not TLS.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import checkout  # noqa: F401  (before what lies in tests)

from securefg.flare import local
from securefg.flare.kits import Kits, Plan, provision_kits
from securefg.flare.local import LocalProcesses
from securefg.protocol import codec
from securefg.protocol.transcript import read_transcript
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Silent
from tests.e2e.flare_line import Line
from tests.small import config

PIECE = 24
RECORDS = {20: "change_cipher_spec", 21: "alert", 22: "handshake", 23: "application_data"}


def main(root: Path) -> int:
    parsed = config(root / "run", "engine.name=flare", "training.rounds=3")
    folder = RunFolder.create(parsed, lambda path: None)
    lines: list[Line] = []
    planted = secrets.token_bytes(PIECE)

    def provision_with_a_line(target: Path, plan: Plan) -> Kits:
        kits = provision_kits(target, plan)
        lines.append(Line(plan.port, keeps=True))
        for site in plan.sites:
            lines[0].put_before(kits, site)
        return kits

    def plant(processes: LocalProcesses) -> None:
        if sent or not folder.metrics():
            return
        with socket.create_connection(("127.0.0.1", lines[0].port), timeout=5) as stranger:
            stranger.sendall(b"x" * 100 + planted + b"x" * 100)
        sent.append(True)

    sent: list[bool] = []
    local.provision_kits = provision_with_a_line
    local.run_locally(prepare(parsed), folder, Silent(), plant)
    passed = [bytes(one) for one in lines[0].passed]
    pieces = [("the planted piece", planted), *known(folder)]
    exposed_counts = Counter(kind for kind, piece in pieces if any(piece in one for one in passed))
    total = Counter(kind for kind, _ in pieces)
    words = ", ".join(f"{exposed_counts[kind]} of {total[kind]} {kind}" for kind in total)
    print(f"{sum(map(len, passed))} bytes on {len(passed) // 2} connections; found {words}")
    of_sites = [one for one in passed if planted not in one and one]
    records = Counter[str]()
    for one in of_sites:
        records += tls_records(one)
    print(f"TLS records: {dict(records)}")
    size = folder.summary().bytes
    print(f"the run's own count: up {size.up}, down {size.down}")
    carried = sum(map(len, of_sites)) > size.up.payload + size.down.payload
    good = (
        dict(exposed_counts) == {"the planted piece": 1} and total["array pieces"] >= 10 and carried
    )
    return int(not good or records["not TLS"] > 0)


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


def tls_records(passed: bytes) -> Counter[str]:
    """The records of one direction of a connection, by kind; whatever is none is `not TLS`."""
    starts, at = [0], 0
    while at + 5 <= len(passed):
        at += 5 + int.from_bytes(passed[at + 3 : at + 5], "big")
        starts.append(at)
    heads = (passed[start : start + 3] for start, _ in pairwise(starts))
    return Counter(
        RECORDS.get(head[0], "not TLS") if head[1] == 3 and head[2] <= 3 else "not TLS"
        for head in heads
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    sys.exit(main(target))
