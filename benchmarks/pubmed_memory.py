"""FedGL on PubMed with six overlapping clients: the peak memory of the whole process.

python benchmarks/pubmed_memory.py
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from limits import Row

from securefg.runs import runner
from securefg.settings.config import load_config


def measured() -> tuple[float, float]:
    """Seconds, and GiB at the peak."""
    with tempfile.TemporaryDirectory() as root:
        overrides = ["data.name=pubmed", "training.rounds=4", f"output.root={root}"]
        config = load_config(Path("configs/fedgl_cora.yaml"), [*overrides, "name=pubmed"])
        summary = runner.start(config).summary
    assert summary is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return summary.seconds, peak


def rows() -> list[Row]:
    return [Row("FedGL on PubMed, six overlapping clients, peak memory", 1.5, measured()[1], "GiB")]


def main() -> None:
    seconds, peak = measured()
    print(f"4 rounds in {seconds:.0f} s; peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
