"""PPFL-GNN's federated DeepWalk: Tables 1 and 3, and alignment (Figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from securefg.reproduce.drawings import metrics_over_rounds, over_columns
from securefg.reproduce.entry import POINTS, Cell, Entry, Reader, Source
from securefg.reproduce.readers import stored
from securefg.run_folder import RunFolder

PAPER = "PPFL-GNN, a privacy-preserving federated graph neural network framework."
QUICK = ("training.rounds=2",)
SEEDS = 5
NUM_CLIENTS = 4
SCORES = {"MLP": "mlp_f1", "SVC": "svc_f1"}
ONCE = ("method.exchange=false", "training.rounds=1")
EQUAL = ("method.exchange=false", "method.schedule=run")
BY_DEGREE = (
    "method.aggregation=degree",
    "method.start=shared",
    "method.share=model",
    "method.schedule=run",
)
ALONE = (*EQUAL, "merged=true")


def deepwalk(data: str, *overrides: str) -> Source:
    return Source(f"ppfl_deepwalk_{data.lower()}.yaml", overrides)


def f1_of(folder: RunFolder, client: int, classifier: str) -> float:
    return 100 * stored(folder, "local_scores", str(client), SCORES[classifier])


def f1(client: int, classifier: str) -> Reader:
    return lambda runs: f1_of(runs[0], client, classifier)


def mean_f1(classifier: str) -> Reader:
    return lambda runs: sum(f1_of(runs[0], c, classifier) for c in range(NUM_CLIENTS)) / NUM_CLIENTS


def gained(classifier: str) -> Reader:
    """GLOBAL: the sum over clients of the first run's score less the second's."""

    def read(runs: Sequence[RunFolder]) -> float:
        fed, loc = runs
        clients = range(NUM_CLIENTS)
        return sum(f1_of(fed, c, classifier) - f1_of(loc, c, classifier) for c in clients)

    return read


def table1() -> Iterator[Cell]:
    paper = {
        ("Cora", "MLP"): ((79.1, 76.0, 74.3, 75.0), (80.1, 76.0, 76.1, 76.6), 4.41, 79.9),
        ("Cora", "SVC"): ((79.3, 77.5, 75.5, 75.0), (81.4, 78.7, 77.9, 78.0), 8.72, 82.0),
        ("CiteSeer", "MLP"): ((48.1, 46.4, 48.9, 49.2), (51.4, 50.4, 51.6, 51.7), 12.5, 58.6),
        ("CiteSeer", "SVC"): ((56.3, 53.5, 57.3, 55.3), (60.6, 58.6, 61.6, 60.4), 18.8, 65.4),
    }
    for (data, classifier), (loc, fed, total, full) in paper.items():
        name, once, equal = f"{data} {classifier}", deepwalk(data, *ONCE), deepwalk(data, *EQUAL)
        ours = deepwalk(data, *BY_DEGREE)
        for client in range(NUM_CLIENTS):
            row, read = f"{name} client {client + 1}", f1(client, classifier)
            yield Cell(row, "LOC", (once,), read, loc[client])
            yield Cell(row, "FED", (deepwalk(data),), read, fed[client])
            yield Cell(row, "LOC, equal training", (equal,), read)
            yield Cell(row, "FED by degree", (ours,), read)
        row, read = f"{name} GLOBAL", gained(classifier)
        yield Cell(row, "FED", (deepwalk(data), once), read, total, unit=POINTS)
        yield Cell(row, "FED by degree", (ours, equal), read, unit=POINTS)
        alone = (deepwalk(data, *ALONE),)
        yield Cell(f"{name} full graph", "LOC", alone, f1(0, classifier), full)


def table3() -> Iterator[Cell]:
    paper = {
        5: (57.1, 61.8),
        10: (57.3, 62.3),
        20: (61.8, 65.0),
        30: (63.4, 65.8),
        40: (67.8, 69.2),
    }
    read = mean_f1("SVC")
    for share, (loc, fed) in paper.items():
        scheme = f"{{name: public_private, selection: top_degree, public_share: {share / 100}}}"
        top = f"partition={scheme}"
        columns = {"LOC": (ONCE, loc), "FED": ((), fed), "LOC, equal training": (EQUAL, None)}
        for column, (own, value) in columns.items():
            source = deepwalk("CiteSeer", top, *own)
            yield Cell(f"DeepWalk {share} %", column, (source,), read, value)


def precision(k: int) -> Reader:
    """P@k of the last iteration, mean over the ordered pairs of clients, in percent."""

    def read(runs: Sequence[RunFolder]) -> float:
        last = runs[0].metrics()[-1]
        return 100 * float(last["extra"][f"alignment_p{k}"])

    return read


def alignment() -> Iterator[Cell]:
    for data in ("Cora", "CiteSeer"):
        for k in (1, 5, 10):
            yield Cell(f"DeepWalk {data}", f"P@{k}", (deepwalk(data),), precision(k))


ENTRIES = (
    Entry(
        name="ppfl-table1",
        title="PPFL-GNN, Table 1: federated DeepWalk",
        paper=PAPER,
        cells=tuple(table1()),
        seeds=SEEDS,
        quick=QUICK,
        about="Micro-F1, 5-fold, on each client's own nodes. LOC trains once, as in the paper; "
        "with equal training it trains as long as FED does. FED by degree is not the paper's: rows "
        "count by a node's degree, and its GLOBAL is against LOC with equal training.",
    ),
    Entry(
        name="ppfl-table3",
        title="PPFL-GNN, Table 3: how many nodes are public",
        paper=PAPER,
        cells=tuple(table3()),
        seeds=SEEDS,
        quick=QUICK,
        about="CiteSeer, mean of the four clients, SVC (the paper does not name the classifier); "
        "the nodes of highest degree are public.",
    ),
    Entry(
        name="ppfl-alignment",
        title="PPFL-GNN, Figures 3-4: alignment precision",
        paper=PAPER,
        cells=tuple(alignment()),
        seeds=SEEDS,
        quick=QUICK,
        about="At the last iteration. The paper's DeepWalk ends above 90 % at k = 1; its other "
        "figures are not printed.",
        draw=(
            over_columns("neighbours", "Alignment precision at the last iteration, in percent."),
            metrics_over_rounds(
                {f"P@{k}": f"alignment_p{k}" for k in (1, 5, 10)},
                "alignment precision",
                "Share of public nodes found among the k nearest, by iteration.",
            ),
        ),
    ),
)
