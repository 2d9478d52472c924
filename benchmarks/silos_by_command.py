"""FedAvg and FedGL by `securefg run` on silos of a thousand to 100 thousand nodes: time, memory.

    python benchmarks/silos_by_command.py

Four silos of a contextual stochastic block model, two rounds of two local epochs, every size and
way of training in a process of its own. `whole` trains on the whole graph of a silo, `sampled` on
batches of 1,024 labelled nodes with 10 neighbours of each and 10 of each of those. A round's
seconds are CPU seconds of the second round.
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

SIZES = (1_000, 10_000, 100_000)
FEDAVG = {"name": "fedavg", "network": "GraphSAGE"}
FEDGL = {"name": "fedgl"}


def measured(method: str, silo: int, above: int, root: Path) -> dict[str, float]:
    """In this process: CPU seconds of the second round, in all, and peak memory in GiB."""
    from securefg.runs.observing import RoundReport, Silent
    from securefg.runs.runner import start
    from securefg.settings.config import parse_config

    ends: list[float] = []

    class Clock(Silent):
        def round_done(self, report: RoundReport) -> None:
            ends.append(time.process_time())

    # FedGL's silos overlap, and all nodes are those of one silo; FedAvg's four are apart
    apart = method == "fedavg"
    nodes = 4 * silo if apart else silo
    csbm = {"num_nodes": nodes, "degree": 10, "graph_signal": 2, "mu": nodes, "num_features": 50}
    tree = {
        "method": {**(FEDAVG if apart else FEDGL), "sampling": {"above": above}},
        "data": {"name": "csbm", "csbm": csbm},
        "partition": {"name": "random", "num_clients": 4}
        if apart
        else {"name": "shares", "shares": [0.6, 0.7, 0.8, 0.9]},
        "training": {"rounds": 2, "local_epochs": 2, "patience": None},
        "output": {"root": str(root), "transcript_every": 0},
    }
    run = start(parse_config(tree), Clock(), fresh=True)
    summary = run.folder.summary()
    return {
        "round": ends[-1] - ends[0],
        "all": time.process_time(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "accuracy": summary.test_accuracy or 0.0,
        "recall": summary.method_facts.get("pseudo_graph_recall", 1.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--methods", nargs="+", default=["fedavg", "fedgl"])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        if asked.one is not None:
            method, silo, above = asked.one
            print(json.dumps(measured(method, int(silo), int(above), Path(root))))
            return
        print(
            "method    nodes of a silo  training  CPU s/round  CPU s in all  peak GiB  test  recall"
        )
        for method in asked.methods:
            for silo in asked.sizes:
                for name, above in (("whole", 10**9), ("sampled", 0)):
                    command = [sys.executable, __file__, "--one", method, str(silo), str(above)]
                    done = subprocess.run(
                        command, check=True, stdout=subprocess.PIPE, env=os.environ
                    )
                    figures = json.loads(done.stdout.splitlines()[-1])
                    print(
                        f"{method:8} {silo:16,}  {name:8} {figures['round']:12.2f} "
                        f"{figures['all']:13.1f} {figures['peak']:9.2f} {figures['accuracy']:5.3f} "
                        f"{figures['recall']:7.3f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
