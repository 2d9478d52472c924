"""FedGL on PubMed with six overlapping clients: the peak memory of the whole process.

python benchmarks/pubmed_memory.py
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from securefg.run import runner
from securefg.settings.config import load_config


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        overrides = ["data.name=pubmed", "training.rounds=4", f"output.root={root}"]
        config = load_config(Path("configs/fedgl_cora.yaml"), [*overrides, "name=pubmed"])
        summary = runner.start(config).summary
    assert summary is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"4 rounds in {summary.seconds:.0f} s; peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
