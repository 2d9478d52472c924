"""What it costs that records outlive the machine's end: FedGL on Cora with fsync, and without.

    python benchmarks/fsync_cost.py [ROUNDS] [REPEATS]

Runs take turns; each is a process of its own. Prints CPU and wall seconds of each and the ratios of
the medians.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = """
import json, os, sys, time
from pathlib import Path
from securefg.runs import runner
from securefg.settings.config import load_config
if sys.argv[1] == "off":
    os.fsync = lambda handle: None
config = load_config(
    Path("fedgl_cora"),
    [f"output.root={sys.argv[2]}", f"training.rounds={sys.argv[3]}", "training.patience=null"],
)
wall, cpu = time.perf_counter(), time.process_time()
runner.start(config)
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]))
"""


def once(fsync: str, rounds: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as root:
        words = [sys.executable, "-c", RUN, fsync, root, str(rounds)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    cpu, wall = json.loads(done.stdout.splitlines()[-1])
    return cpu, wall


def main(rounds: int, repeats: int) -> None:
    times_by_setting: dict[str, list[tuple[float, float]]] = {"on": [], "off": []}
    for repeat in range(repeats):
        for fsync in ("on", "off") if repeat % 2 else ("off", "on"):
            times_by_setting[fsync].append(once(fsync, rounds))
            cpu, wall = times_by_setting[fsync][-1]
            print(f"fsync {fsync:3}  cpu {cpu:.2f} s  wall {wall:.2f} s", flush=True)
    for place, name in enumerate(("cpu", "wall")):
        on, off = (statistics.median(t[place] for t in times_by_setting[k]) for k in ("on", "off"))
        print(f"{name}: on {on:.2f} s, off {off:.2f} s, {on / off:.3f} times")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [30, 5][len(given) :]))
