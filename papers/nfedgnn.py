"""nFedGNN's Table 1 and Figures 3-5."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from papers.drawings import over_columns, over_rounds
from papers.entry import MEBIBYTES, Cell, Entry, Reader, Source, Unit
from papers.readers import global_accuracy, stored, uplink_mebibytes
from securefg.runs.folder import RunFolder

PAPER = "One Node Per User: Node-Level Federated Learning for Graph Neural Networks (nFedGNN)."
QUICK = ("training.rounds=2",)
SEEDS = 3
PAPER_ROUNDS = 200
LAMBDAS = ("0.1", "1", "10", "100", "300")
CNFGNN = ("method.average=true", "method.smoothness=0")
SPLIT_GAT = ("method.network=gat",)


def with_lambda(data: str, value: str) -> Source:
    return Source(f"nfedgnn_{data.lower()}.yaml", (f"method.smoothness={value}",))


def best_on_validation(runs: Sequence[RunFolder]) -> RunFolder:
    return max(runs, key=lambda folder: stored(folder, "val_accuracy"))


def accuracy_of_the_best(runs: Sequence[RunFolder]) -> float:
    return global_accuracy([best_on_validation(runs)])


def swept() -> Iterator[Cell]:
    for data in ("Cora", "PubMed"):
        for value in ("0", *LAMBDAS):
            yield Cell(data, value, (with_lambda(data, value),), global_accuracy)


def best() -> Iterator[Cell]:
    sources = tuple(with_lambda("Cora", value) for value in LAMBDAS)
    read = accuracy_of_the_best
    yield Cell("Cora", "best lambda", sources, read, 71.9, shown=best_on_validation)
    yield Cell("Cora", "lambda 0", (with_lambda("Cora", "0"),), global_accuracy)
    yield Cell("Cora", "CNFGNN", (Source("nfedgnn_cora.yaml", CNFGNN),), global_accuracy)
    whole = (Source("gcn_cora_centralized.yaml"),)
    yield Cell("Cora", "centralised", whole, global_accuracy, 81.5)


def for_all_rounds(runs: Sequence[RunFolder]) -> float:
    """Rounds send the same: what a short run sent, for the paper's 200."""
    return uplink_mebibytes(runs) * PAPER_ROUNDS / stored(runs[0], "rounds")


def printed(value: float) -> Unit:
    """The paper gives three digits of large numbers: half of the last one is what is known."""
    if value < 1000:
        return MEBIBYTES
    return Unit("MiB", 0, 0.005 * 10 ** math.floor(math.log10(value)), MEBIBYTES.close)


def uplink() -> Iterator[Cell]:
    paper = {
        "Cora": (34.06, 264.45, 4.74e4),
        "CiteSeer": (40.61, 324.90, 1.50e5),
        "PubMed": (240.69, 1.93e3, 1.21e5),
        "Chameleon": (27.80, 222.36, 6.47e4),
        "Squirrel": (63.49, 507.91, 1.33e5),
    }
    read: Reader = for_all_rounds
    for data, values in paper.items():
        short = (f"data={{name: {data.lower()}}}", "training.rounds=2")
        columns = {"GCN": (), "GAT": SPLIT_GAT, "CNFGNN GCN": CNFGNN}
        for (column, own), value in zip(columns.items(), values, strict=True):
            source = Source("nfedgnn_cora.yaml", (*short, *own))
            yield Cell(data, column, (source,), read, value, unit=printed(value))


ENTRIES = (
    Entry(
        name="nfedgnn-bytes",
        title="nFedGNN, Table 1: what users upload",
        paper=PAPER,
        cells=tuple(uplink()),
        seeds=1,
        quick=(),
        about="Payload of all users over 200 rounds, counted by runs of two. The paper's 34.06 for "
        "Cora is a slip for 33.06: its GAT figure is eight times that. CNFGNN's GAT is left out, "
        "since a round of it weighs gigabytes. Wiki-CS is left out, since not everybody has its "
        "files.",
    ),
    Entry(
        name="nfedgnn-curves",
        title="nFedGNN, Figures 3 and 4: training curves on Cora",
        paper=PAPER,
        cells=tuple(best()),
        seeds=SEEDS,
        quick=QUICK,
        about="The best lambda is chosen on validation.",
        draw=(
            over_rounds("test_accuracy", "test accuracy", "Mean over seeds, by round."),
            over_rounds("train_loss", "training loss", "Mean over seeds, by round."),
        ),
    ),
    Entry(
        name="nfedgnn-lambda",
        title="nFedGNN, Figure 5: lambda",
        paper=PAPER,
        cells=tuple(swept()),
        seeds=SEEDS,
        quick=QUICK,
        about="The paper shows curves only.",
        draw=(
            over_columns("lambda", "Test accuracy in percent."),
            over_rounds("test_accuracy", "test accuracy", "Mean over seeds, by round."),
        ),
    ),
)
