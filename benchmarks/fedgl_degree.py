"""Search what makes FedGL's pseudo graph work with the paper's D, on Cora.

    python benchmarks/fedgl_degree.py --seeds 2

Every reading but the default divides by D_ii = sum_j A_ij. All readings of a seed are one batch.
Figures are test accuracies of the round with the best validation accuracy, among 100 rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import checkout  # noqa: F401  (before what lies in papers)
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from papers.fedgl_batch import Matrix, Run, Together
from securefg.settings.config import RunConfig, load_config

CONFIG = Path(__file__).parent.parent / "configs" / "fedgl_cora.yaml"
SHORT = ("training.rounds=100", "output.transcript_every=0")


@dataclass(frozen=True)
class Reading:
    """A way to read equation 9 and what is around it."""

    words: str
    settings: tuple[str, ...] = ()
    rescale: Callable[[Tensor], Tensor] = lambda embeddings: embeddings
    symmetric: bool = False
    scored_alone: bool = False


def centre(embeddings: Tensor) -> Tensor:
    """Return the rows less their mean."""
    return embeddings - embeddings.mean(0)


READINGS = (
    Reading("default: D counts neighbours", ("method.degree=count",)),
    Reading("the paper's D"),
    Reading("rows of H of length one", rescale=normalize),
    Reading("rows of H by softmax", rescale=lambda rows: rows.softmax(-1)),
    Reading("rows of H less their mean", rescale=centre),
    Reading("top s made symmetric", symmetric=True),
    Reading("scored without the pseudo graph", scored_alone=True),
    Reading("20 rounds of warm-up", ("method.warmup=20",)),
    Reading("10 neighbours in place of 100", ("method.num_neighbors=10",)),
    Reading("beta .1 in place of 1", ("method.beta=0.1",)),
    Reading("beta .01", ("method.beta=0.01",)),
    Reading(
        "length one, symmetric, warm-up, scored without",
        ("method.warmup=20",),
        normalize,
        symmetric=True,
        scored_alone=True,
    ),
)


class ReadingRun(Run):
    """A run under a reading."""

    reading: Reading

    def connect(self, embeddings: Tensor) -> Matrix:
        """Return the pseudo graph as the reading builds it."""
        graph = super().connect(self.reading.rescale(embeddings))
        if not self.reading.symmetric:
            return graph
        mean = (graph + graph.T).tocsr()
        mean.data = (mean.data / 2).astype(np.float32)
        return mean

    @property
    def scored_graph(self) -> Matrix | None:
        """Return the pseudo graph that the model is scored with, or None."""
        return None if self.reading.scored_alone else self.graph


class Readings(Together):
    """All readings of one seed."""

    def __init__(self, seed: int) -> None:
        self._left = iter(READINGS)
        super().__init__([config_of(reading, seed) for reading in READINGS])

    def make_run(self, config: RunConfig) -> Run:
        """Return the run of the next reading."""
        run = ReadingRun.of(config, self._shape)
        assert isinstance(run, ReadingRun)
        run.reading = next(self._left)
        return run


def config_of(reading: Reading, seed: int) -> RunConfig:
    """Return the config of a reading."""
    return load_config(CONFIG, ("method.degree=weight", *reading.settings, *SHORT, f"seed={seed}"))


def main() -> None:
    """Print a line per reading with the accuracy of every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    torch.set_num_threads(1)
    start, accuracies = time.process_time(), []
    for seed in range(parser.parse_args().seeds):
        accuracies.append([run.test_accuracy for run in Readings(seed).finish()])
    for reading, *values in zip(READINGS, *accuracies, strict=True):
        print(f"| {reading.words} | {', '.join(f'{value:.3f}'[1:] for value in values)} |")
    print(f"{time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    main()
