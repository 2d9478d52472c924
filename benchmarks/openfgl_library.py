"""OpenFGL's side of `openfgl.py`, which starts this in OpenFGL's own environment.

python -P benchmarks/openfgl_library.py ROOT SEED

Prints the CPU-seconds of all rounds and the test accuracy as JSON. `-P` keeps this folder, which
has a file of the library's name, off the path.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time

import torch


def run_library(root: str, seed: int) -> dict[str, float]:
    """Run FedAvg as OpenFGL's own configuration has it."""
    from openfgl import config
    from openfgl.flcore.trainer import FGLTrainer
    from openfgl.utils.basic_utils import seed_everything

    arguments = config.args
    arguments.root, arguments.seed, arguments.use_cuda = root, seed, False
    arguments.dataset, arguments.simulation_mode = ["Cora"], "subgraph_fl_louvain"
    arguments.fl_algorithm, arguments.num_clients, arguments.num_rounds = "fedavg", 10, 100
    arguments.model, arguments.hid_dim, arguments.num_epochs = ["gcn"], 64, 3
    arguments.metrics, arguments.train_val_test = ["accuracy"], "0.2-0.4-0.4"
    seed_everything(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = FGLTrainer(arguments)
        began = time.process_time()
        trainer.train()
    seconds = time.process_time() - began
    return {"seconds": seconds, "accuracy": float(trainer.evaluation_result["best_test_accuracy"])}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(run_library(sys.argv[1], int(sys.argv[2]))))
