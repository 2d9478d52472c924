"""OpenFGL's published setting through securefg: CPU-seconds of the training loop, and accuracy.

    python benchmarks/openfgl.py

10 Louvain clients of Cora, GCN with 64 hidden units, 100 rounds of 3 epochs, FedAvg, 20/40/40 % of
every class. Messages, ledger and transcript are on, and so is the scoring after every round.
Scored: the global model of the round with the best validation score, on every client's own graph
and test nodes, pooled over the clients; and the same model on the union graph.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from securefg.run import runner
from securefg.run.assembly import Experiment
from securefg.run.observing import Silent
from securefg.settings.config import load_config


class Clock(Silent):
    """CPU time from the moment everything is loaded."""

    began = 0.0

    def started(self, experiment: Experiment, first_round: int) -> None:
        self.began = time.process_time()


def main(seeds: int = 3) -> None:
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as root:
            overrides = [f"seed={seed}", f"output.root={root}"]
            config = load_config(Path("configs/fedgl_cora_louvain.yaml"), overrides)
            clock = Clock()
            summary = runner.start(config, clock).summary
            seconds = time.process_time() - clock.began
            assert summary is not None
            print(
                f"seed {seed}: {seconds:.1f} CPU-seconds for the loop; "
                f"clients' own test nodes {summary.local_test_accuracy.pooled:.4f}, "
                f"union graph {summary.test_accuracy:.4f}"
            )


if __name__ == "__main__":
    main()
