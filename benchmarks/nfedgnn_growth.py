"""nFedGNN from a thousand users to a million: CPU seconds per round, and peak memory.

    python benchmarks/nfedgnn_growth.py --csv docs/images/nfedgnn_growth.csv \
        --figure docs/images/nfedgnn_growth.svg

Users have twenty words out of two thousand and about ten neighbours; the GCN has 16 hidden units.
Data are generated where they are used, host by host; everything else is what a run has: channel,
codec, ledger, federation, and a transcript of headers. Every size runs in a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import torch
from markupsafe import Markup
from torch import Tensor

from securefg.data.graph import undirected
from securefg.engines.admission import Admission, RequestPlan
from securefg.engines.endpoint import Endpoint
from securefg.engines.inprocess import InProcess
from securefg.federation.channel import Channel
from securefg.federation.federation import Federation
from securefg.federation.roles import PublicInfo
from securefg.methods.nfedgnn.algorithm import METHOD, LatentServer, Users
from securefg.methods.nfedgnn.settings import Settings
from securefg.models.user_weights import SparseFeatures
from securefg.privacy.ledger import Ledger
from securefg.privacy.noise import SystemNoise
from securefg.privacy.policy import Policy, make_policy
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import TranscriptWriter
from securefg.reports.figures.canvas import Scale, coordinate, element
from securefg.settings.execution import TrainingSettings
from securefg.settings.privacy import PrivacySettings

SIZES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
WORDS, WORDS_PER_USER, EDGES_PER_USER, CLASSES = 2000, 20, 5, 10
USERS_PER_HOST = 250_000
SETTINGS, TRAINING = Settings(smoothness=10), TrainingSettings(rounds=200, lr=0.1)


@dataclass(frozen=True)
class Growth:
    """One size: CPU seconds of a round (the least of several), payload up, and peak memory."""

    num_users: int
    seconds_per_round: float
    mib_up_per_round: float
    peak_gib: float


def words_of(count: int, stream: torch.Generator) -> SparseFeatures:
    """Every user has one word out of each twentieth of the vocabulary."""
    stride = WORDS // WORDS_PER_USER
    shape = (count, WORDS_PER_USER)
    drawn = torch.randint(stride, shape, generator=stream, dtype=torch.int32)
    columns = (drawn + torch.arange(0, WORDS, stride, dtype=torch.int32)).flatten()
    offsets = torch.arange(count + 1) * WORDS_PER_USER
    return SparseFeatures(offsets, columns, torch.ones(len(columns)), WORDS)


def public_info(num_users: int, stream: torch.Generator) -> PublicInfo:
    ends = torch.randint(num_users, (2, EDGES_PER_USER * num_users), generator=stream)
    labels = torch.randint(CLASSES, (num_users,), generator=stream)
    known = torch.rand(num_users, generator=stream) < 0.05
    return PublicInfo(
        num_nodes=num_users,
        num_features=WORDS,
        num_classes=CLASSES,
        num_clients=num_users,
        seed=0,
        device=torch.device("cpu"),
        edge_index=undirected(ends, num_users),
        known_labels=torch.where(known, labels, -1),
    )


def host(
    low: int, high: int, policy: Policy, plan: RequestPlan, stream: torch.Generator
) -> Endpoint:
    clients = Clients(((low, high),))
    users = Users(words_of(high - low, stream), clients.array(), SETTINGS, TRAINING, 0)
    channel = Channel(policy, SystemNoise(), Ledger(high))
    return Endpoint(
        f"host-{low}", clients, METHOD, users, channel, Admission(METHOD, SETTINGS, policy, plan)
    )


def measured(num_users: int, rounds: int) -> Growth:
    torch.set_num_threads(1)
    stream = torch.Generator().manual_seed(0)
    info = public_info(num_users, stream)
    planned = METHOD.planned(SETTINGS, TRAINING, info)
    policy = make_policy(PrivacySettings(), planned, num_users, num_users)
    lows = range(0, num_users, USERS_PER_HOST)
    plan = RequestPlan.of(METHOD, SETTINGS, TRAINING, info, policy, planned)
    engine = InProcess(
        [host(low, min(low + USERS_PER_HOST, num_users), policy, plan, stream) for low in lows]
    )
    with tempfile.TemporaryDirectory() as root:
        ledger = Ledger(num_users, Path(root) / "ledger.jsonl")
        transcript = TranscriptWriter(Path(root))
        federation = Federation(engine, policy, ledger, transcript, keep_body=lambda _: False)
        server = LatentServer(info, SETTINGS, TRAINING, federation)
        seconds = [_seconds(server, federation, number) for number in range(1, rounds + 1)]
        transcript.close()
    up = federation.traffic.up.payload / rounds / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Growth(num_users, min(seconds), up, peak)


def _seconds(server: LatentServer, federation: Federation, number: int) -> float:
    began = time.process_time()
    federation.begin_round(number)
    logits: Tensor = server.round(number).logits
    assert bool(torch.isfinite(logits).all())
    return time.process_time() - began


def in_a_process(num_users: int, rounds: int) -> Growth:
    """Peak memory is a process's, so every size has its own."""
    command = [sys.executable, __file__, "--one", str(num_users), "--rounds", str(rounds)]
    # PYTHONPATH stays as the caller has it, so that a copy measures itself.
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    users, *rest = found.stdout.split()
    return Growth(int(users), *(float(value) for value in rest))


# ---------------------------------------------------------------------------------- the figure

PANEL, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340.0, 260.0, 56.0, 16.0, 44.0, 40.0
STYLE = (
    "text{font:12px sans-serif;fill:#444}.title{font-weight:600;fill:#111}"
    ".grid{stroke:#ddd}.fit{fill:none;stroke:#888;stroke-dasharray:4 3}.dot{fill:#2563a8}"
)


def drawn(rows: Sequence[Growth]) -> str:
    sizes = [row.num_users for row in rows]
    seconds = _panel("CPU seconds per round", sizes, [r.seconds_per_round for r in rows], 0)
    memory = _panel("peak memory, GiB", sizes, [r.peak_gib for r in rows], PANEL)
    return str(
        element(
            "svg",
            element("style", STYLE),
            *seconds,
            *memory,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {2 * PANEL:g} {HEIGHT:g}",
            role="img",
            aria_label="nFedGNN's time per round and memory against the number of users",
        )
    )


def _panel(
    title: str, sizes: Sequence[int], values: Sequence[float], at: float
) -> Iterator[Markup]:
    """Both axes by powers of ten; the broken line grows as the number of users does."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    x = Scale(math.log10(sizes[0]), math.log10(sizes[-1]), at + LEFT, at + PANEL - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    yield element("text", title, class_="title", x=at + LEFT, y=16)
    yield element("text", "broken line: in proportion to the users", x=at + LEFT, y=32)
    for power in range(low, high + 1):
        yield element("line", class_="grid", x1=x.start, x2=x.end, y1=y(power), y2=y(power))
        place = y(power) + 4
        yield element("text", f"{10.0**power:g}", x=x.start - 6, y=place, text_anchor="end")
    for power in range(math.ceil(x.low), math.floor(x.high) + 1):
        place = HEIGHT - BOTTOM + 16
        yield element("text", f"{10**power:,}", x=x(power), y=place, text_anchor="middle")
    middle = (x.start + x.end) / 2
    yield element("text", "users", x=middle, y=HEIGHT - 6, text_anchor="middle")
    last = math.log10(values[-1])
    start = max(x.low, x.high - (last - low))
    ends = ((start, last - (x.high - start)), (x.high, last))
    line = " ".join(f"{coordinate(x(n))},{coordinate(y(value))}" for n, value in ends)
    yield element("polyline", class_="fit", points=line)
    for n, value in zip(sizes, values, strict=True):
        yield element("circle", class_="dot", cx=x(math.log10(n)), cy=y(math.log10(value)), r=3.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--csv", type=Path, help="a table to write")
    parser.add_argument("--figure", type=Path, help="an SVG file to write")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        print(*astuple(measured(asked.one, asked.rounds)))
        return
    rows = [in_a_process(n, asked.rounds) for n in asked.sizes]
    print("   users   s/round   µs/user   MiB up/round   peak GiB")
    for row in rows:
        per_user = 1e6 * row.seconds_per_round / row.num_users
        print(
            f"{row.num_users:8} {row.seconds_per_round:9.4f} {per_user:9.2f} "
            f"{row.mib_up_per_round:14.2f} {row.peak_gib:10.2f}"
        )
    if asked.csv is not None:
        with asked.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Growth)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    if asked.figure is not None:
        asked.figure.write_text(drawn(rows) + "\n")


if __name__ == "__main__":
    main()
