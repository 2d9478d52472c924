"""nFedGNN by `securefg run` from a thousand users to a million: seconds per round, peak memory.

    python benchmarks/users_by_command.py

Every size runs `configs/nfedgnn_million.yaml` with other numbers of users, in a process of its own;
a round's seconds are CPU seconds of the second and third round, data, hosts and files left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from limits import Row

CONFIG = Path(__file__).parents[1] / "configs" / "nfedgnn_million.yaml"
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def measured(num_users: int, root: Path) -> dict[str, float]:
    """In this process: its CPU seconds by round, in all, and its peak memory in GiB."""
    from securefg.runs.observing import RoundReport, Silent
    from securefg.runs.runner import start
    from securefg.settings.config import load_config

    ends: list[float] = []

    class Clock(Silent):
        def round_done(self, report: RoundReport) -> None:
            ends.append(time.process_time())

    # the strength of the features is sqrt(mu / N), so mu grows with N
    sizes = [f"data.csbm.num_nodes={num_users}", f"data.csbm.mu={num_users}"]
    config = load_config(CONFIG, [*sizes, f"output.root={root}"])
    start(config, Clock(), fresh=True)
    return {
        "round": (ends[-1] - ends[0]) / (len(ends) - 1),
        "all": time.process_time(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def in_a_process(num_users: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(num_users)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows() -> list[Row]:
    found = in_a_process(1_000_000)
    return [
        Row("a round of a million users by the command, CPU", 12, found["round"], "s"),
        Row("a million users by the command, peak memory", 6, found["peak"], "GiB"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        if asked.one is not None:
            print(json.dumps(measured(asked.one, Path(root))))
            return
        print("    users   CPU s/round   us/user   CPU s in all   peak GiB")
        for users in asked.sizes:
            figures = in_a_process(users)
            each = 1e6 * figures["round"] / users
            print(
                f"{users:9,} {figures['round']:13.3f} {each:9.1f} {figures['all']:14.1f} "
                f"{figures['peak']:10.2f}"
            )


if __name__ == "__main__":
    main()
