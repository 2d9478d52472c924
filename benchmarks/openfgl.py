"""OpenFGL's published setting: the real library and ours in turns, CPU-seconds and accuracy.

    python benchmarks/openfgl.py [--seeds 3]

10 Louvain clients of Cora, GCN with 64 hidden units, 100 rounds of 3 epochs, FedAvg, 20/40/40 % of
every class. Our side has messages, ledger and transcript on, and scores the model after every
round. OpenFGL 1.1.0 from the package index scores its clients' models after every round. Its
environment lies in a cache folder and shares torch and torch-geometric with this one. It reads the
raw files of Cora from SECUREFG_DATA. The clock of both sides starts once everything is loaded.
Our accuracy is that of the global model of the best round by validation, on every client's own
graph and test nodes, pooled over the clients, and on the union graph.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

from limits import Row

from securefg.runs import runner
from securefg.runs.assembly import Experiment
from securefg.runs.observing import Silent
from securefg.runs.summary import Summary
from securefg.settings.config import load_config

PACKAGES = ("openfgl-lib==1.1.0", "scikit-network", "pymetis", "munkres")
THEIR_SIDE = Path(__file__).with_name("openfgl_library.py")


class Clock(Silent):
    """CPU time from the moment everything is loaded."""

    began = 0.0

    def started(self, experiment: Experiment, first_round: int) -> None:
        self.began = time.process_time()


def run_ours(seed: int) -> tuple[float, Summary]:
    """Return the CPU-seconds of our rounds, and the summary."""
    with tempfile.TemporaryDirectory() as root:
        overrides = [f"seed={seed}", f"output.root={root}"]
        config = load_config(Path("configs/fedgl_cora_louvain.yaml"), overrides)
        clock = Clock()
        summary = runner.start(config, clock).summary
        assert summary is not None
        return time.process_time() - clock.began, summary


def run_theirs(seed: int) -> tuple[float, float]:
    """Return the CPU-seconds of OpenFGL's rounds, and its test accuracy."""
    python = ready_environment()
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    trusted = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # it loads files that it wrote itself
    with tempfile.TemporaryDirectory() as root:
        copy_cora(Path(root))
        done = subprocess.run(
            [str(python), "-P", str(THEIR_SIDE), root, str(seed)],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **threads, **trusted},
        )
    found = json.loads(done.stdout.splitlines()[-1])
    return found["seconds"], found["accuracy"]


def ready_environment() -> Path:
    """Return the Python of an environment with OpenFGL; it is made once and kept in a cache."""
    shared = sysconfig.get_paths()["purelib"]
    version = hashlib.sha256(" ".join([sys.executable, shared, *PACKAGES]).encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "securefg-benchmarks" / f"openfgl-{version[:12]}"
    python, finished = folder / "bin" / "python", folder / "finished"
    if not finished.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=False)
        (own_packages,) = (folder / "lib").glob("python*/site-packages")
        # addsitedir also reads the .pth files of the shared folder.
        (own_packages / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", *PACKAGES], check=True, stdout=sys.stderr)
        finished.touch()
    return python


def copy_cora(root: Path) -> None:
    """Put the raw files where OpenFGL would download them to."""
    raw = Path(os.environ["SECUREFG_DATA"]) / "Planetoid" / "Cora" / "raw"
    shutil.copytree(raw, root / "global" / "subgraph_fl" / "Cora" / "raw")


def rows() -> list[Row]:
    name = "FedAvg on Cora, 100 rounds: OpenFGL over ours, CPU"
    return [Row(name, 5.0, run_theirs(0)[0] / run_ours(0)[0], "x", least=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    for seed in range(parser.parse_args().seeds):
        (peer, accuracy), (seconds, summary) = run_theirs(seed), run_ours(seed)
        print(
            f"seed {seed}: OpenFGL {peer:.1f} CPU-seconds, accuracy {accuracy:.4f}; "
            f"ours {seconds:.1f}, {peer / seconds:.1f}x, "
            f"clients' own test nodes {summary.local_test_accuracy.pooled:.4f}, "
            f"union graph {summary.test_accuracy:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
