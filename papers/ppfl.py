"""PPFL-GNN's Tables 1 to 3 and its alignment precision (Figures 3-6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from papers.drawings import metrics_over_rounds, over_columns
from papers.entry import POINTS, Cell, Entry, Reader, Source
from papers.readers import stored
from securefg.runs.folder import RunFolder

PAPER = (
    "Zhang, Cai, Seo, Privacy-Preserving Federated Graph Neural Network Learning on Non-IID Graph "
    "Data (PPFL-GNN), 2023."
)
QUICK = ("training.rounds=2",)
QUICK_GAT = ("training.rounds=2", "training.local_epochs=2")
SEEDS = 5
NUM_CLIENTS = 4
NUM_FOLDS = 5
SCORES = {"MLP": "mlp_f1", "SVC": "svc_f1"}
# LOC trains as long as FED does. Both have one schedule: rates fall over the whole run.
ONE_SCHEDULE = ("method.schedule=run",)
LOC_DEEPWALK = ("method.exchange=false", *ONE_SCHEDULE)
LOC_GAT = ("method.exchange=false",)
# Beyond the paper, one on top of the other.
STARTED = ("method.start=shared", "method.schedule=run")
CONTEXTS = (*STARTED, "method.share=model")
OURS = (*CONTEXTS, "method.alignment=reference")
BY_DEGREE = "method.aggregation=degree"
NARROW = "method.window=5"
# `merged` would be the union of the clients, without the edges that none of them holds.
WHOLE = "partition={name: shares, shares: [1.0]}"
TEN_WALKS = "training.local_epochs=10"
Sources = tuple[Source, ...]


def deepwalk(data: str, *overrides: str) -> Sources:
    """One run: its embeddings see no label, so the classifiers alone are cross-validated."""
    return (Source(f"ppfl_deepwalk_{data.lower()}.yaml", overrides),)


def gat(data: str, *overrides: str) -> Sources:
    """A run per fold: a GAT must not see the labels of the fold it is scored on."""
    name = f"ppfl_gat_{data.lower()}.yaml"
    folds = [f"data.split.fold={fold}" for fold in range(NUM_FOLDS)]
    return tuple(Source(name, (fold, *overrides)) for fold in folds)


def f1_of(runs: Sequence[RunFolder], client: int, classifier: str) -> float:
    """Micro-F1 at a client in percent, mean over the runs (folds)."""
    keys = ("local_scores", str(client), SCORES[classifier])
    return 100 * sum(stored(folder, *keys) for folder in runs) / len(runs)


def f1(client: int, classifier: str) -> Reader:
    return lambda runs: f1_of(runs, client, classifier)


def mean_f1(classifier: str) -> Reader:
    return lambda runs: sum(f1_of(runs, c, classifier) for c in range(NUM_CLIENTS)) / NUM_CLIENTS


def gained(classifier: str) -> Reader:
    """GLOBAL: the sum over clients of FED less LOC; the first half of the runs is FED's."""

    def read(runs: Sequence[RunFolder]) -> float:
        fed, loc = runs[: len(runs) // 2], runs[len(runs) // 2 :]
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
        name, local = f"{data} {classifier}", deepwalk(data, *LOC_DEEPWALK)
        exchanged, ours = deepwalk(data, *ONE_SCHEDULE), deepwalk(data, *OURS)
        for client in range(NUM_CLIENTS):
            row, read = f"{name} client {client + 1}", f1(client, classifier)
            yield Cell(row, "LOC", local, read, loc[client])
            yield Cell(row, "FED", exchanged, read, fed[client])
            yield Cell(row, "FED, ours", ours, read)
        row, read = f"{name} GLOBAL", gained(classifier)
        yield Cell(row, "FED", exchanged + local, read, total, unit=POINTS)
        yield Cell(row, "FED, ours", ours + local, read, unit=POINTS)
        alone = deepwalk(data, *LOC_DEEPWALK, WHOLE)
        yield Cell(f"{name} full graph", "LOC", alone, f1(0, classifier), full)


def gains() -> Iterator[Cell]:
    """What each change is worth, against LOC of the same length; and as the paper compares, ten
    full trainings against one."""
    narrow = partial(deepwalk, "CiteSeer", NARROW)
    local, once = narrow(*LOC_DEEPWALK), narrow(*LOC_DEEPWALK, TEN_WALKS, "training.rounds=1")
    wide = deepwalk("CiteSeer", *LOC_DEEPWALK)
    steps: dict[str, tuple[Sources, Sources | None]] = {
        "LOC": (local, None),
        "FED, the paper's": (narrow(), local),
        "shared start, one schedule": (narrow(*STARTED), local),
        "and contexts": (narrow(*CONTEXTS), local),
        "and reference alignment": (narrow(*OURS), local),
        "and degrees": (narrow(*OURS, BY_DEGREE), local),
        "contexts and degrees, pairwise": (narrow(*CONTEXTS, BY_DEGREE), local),
        "ten walks: LOC once": (once, None),
        "ten walks: FED, the paper's": (narrow(TEN_WALKS), once),
        "ten walks: reference and degrees": (narrow(*OURS, BY_DEGREE, TEN_WALKS), once),
        "ten walks: LOC as long": (narrow(*LOC_DEEPWALK, TEN_WALKS), once),
        "window 10: LOC": (wide, None),
        "window 10: FED, the paper's": (deepwalk("CiteSeer"), wide),
        "window 10: FED, ours": (deepwalk("CiteSeer", *OURS), wide),
    }
    for row, (sources, against) in steps.items():
        for classifier in SCORES:
            yield Cell(row, classifier, sources, mean_f1(classifier))
        if against is not None:
            for classifier in SCORES:
                both, read = sources + against, gained(classifier)
                yield Cell(row, f"GLOBAL {classifier}", both, read, unit=POINTS)
        if "LOC" not in row:
            yield Cell(row, "P@1", sources, precision(1))


def table2() -> Iterator[Cell]:
    paper = {
        ("Cora", "MLP"): ((84.4, 85.7, 83.1, 85.7), (86.3, 85.8, 83.8, 86.0), 3.01, 86.2),
        ("Cora", "SVC"): ((86.1, 86.5, 85.6, 85.4), (86.7, 86.0, 85.0, 86.0), 0.1, 86.1),
        ("Cora_noise", "MLP"): ((81.4, 79.0, 72.2, 70.6), (81.0, 79.5, 75.9, 77.3), 10.4, None),
        ("Cora_noise", "SVC"): ((82.0, 80.0, 74.5, 72.3), (82.4, 80.8, 77.4, 78.3), 10.1, None),
        ("CiteSeer", "MLP"): ((72.3, 72.8, 72.8, 72.7), (74.7, 74.1, 74.3, 75.0), 7.51, 74.7),
        ("CiteSeer", "SVC"): ((72.8, 72.3, 72.1, 72.1), (74.5, 74.3, 74.3, 74.1), 7.82, 74.8),
    }
    for (data, classifier), (loc, fed, total, full) in paper.items():
        name, local, exchanged = f"{data} {classifier}", gat(data, *LOC_GAT), gat(data)
        for client in range(NUM_CLIENTS):
            row, read = f"{name} client {client + 1}", f1(client, classifier)
            yield Cell(row, "LOC", local, read, loc[client])
            yield Cell(row, "FED", exchanged, read, fed[client])
        total_row = f"{name} GLOBAL"
        yield Cell(total_row, "FED", exchanged + local, gained(classifier), total, unit=POINTS)
        if full is not None:
            alone = gat(data, *LOC_GAT, WHOLE)
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
        top = top_degree(share)
        columns = {
            "LOC": (LOC_DEEPWALK, loc),
            "FED": (ONE_SCHEDULE, fed),
            "FED, ours": (OURS, None),
        }
        for column, (own, value) in columns.items():
            sources = deepwalk("CiteSeer", top, *own)
            yield Cell(f"DeepWalk {share} %", column, sources, read, value)


def table3_gat() -> Iterator[Cell]:
    paper = {
        5: (74.4, 75.1),
        10: (73.9, 75.1),
        20: (71.8, 73.5),
        30: (70.5, 72.6),
        40: (70.5, 73.0),
    }
    read = mean_f1("SVC")
    for share, (loc, fed) in paper.items():
        top = top_degree(share)
        yield Cell(f"GAT {share} %", "LOC", gat("CiteSeer", top, *LOC_GAT), read, loc)
        yield Cell(f"GAT {share} %", "FED", gat("CiteSeer", top), read, fed)


def top_degree(share: int) -> str:
    scheme = f"{{name: public_private, selection: top_degree, public_share: {share / 100}}}"
    return f"partition={scheme}"


def precision(k: int) -> Reader:
    """P@k of the last iteration, mean over the ordered pairs of clients, in percent."""

    def read(runs: Sequence[RunFolder]) -> float:
        last = runs[0].metrics()[-1]
        return 100 * float(last["extra"][f"alignment_p{k}"])

    return read


def alignment() -> Iterator[Cell]:
    for data in ("Cora", "CiteSeer"):
        for k in (1, 5, 10):
            yield Cell(f"DeepWalk {data}", f"P@{k}", deepwalk(data), precision(k))
            yield Cell(f"DeepWalk {data}, ours", f"P@{k}", deepwalk(data, *OURS), precision(k))
    for data in ("Cora", "CiteSeer"):
        for k in (1, 5, 10):
            yield Cell(f"GAT {data}", f"P@{k}", gat(data)[:1], precision(k))


ENTRIES = (
    Entry(
        name="ppfl-table1",
        title="PPFL-GNN, Table 1: federated DeepWalk",
        paper=PAPER,
        cells=tuple(table1()),
        seeds=SEEDS,
        quick=QUICK,
        about="Micro-F1, 5-fold, on each client's own nodes. LOC trains as long as FED does. The "
        "paper does not say how long its LOC did. FED, ours, is not the paper's: contexts are "
        "shared too, from a common start, by reference alignment.",
    ),
    Entry(
        name="ppfl-gains",
        title="PPFL-GNN, beyond the paper: what gains over local training",
        paper=PAPER,
        cells=tuple(gains()),
        seeds=3,
        quick=QUICK,
        about="CiteSeer, mean of the four clients. GLOBAL is their sum of FED less LOC. Ten "
        "rounds of one walk per node and iteration, a window of 5, LOC as long. In the rows of ten "
        "walks every iteration is a full DeepWalk, and GLOBAL is against one such training, as the "
        "paper compares.",
    ),
    Entry(
        name="ppfl-table2",
        title="PPFL-GNN, Table 2: federated GAT",
        paper=PAPER,
        cells=tuple(table2()),
        seeds=SEEDS,
        quick=QUICK_GAT,
        about="Micro-F1 on the fold that training never saw, mean of five folds. LOC trains for as "
        "many epochs as FED. Cora_noise: 15 % of the training labels are wrong.",
    ),
    Entry(
        name="ppfl-table3",
        title="PPFL-GNN, Table 3: how many nodes are public",
        paper=PAPER,
        cells=(*table3(), *table3_gat()),
        seeds=SEEDS,
        quick=QUICK,
        about="CiteSeer, mean of the four clients, SVC (the paper does not name the classifier). "
        "The nodes of highest degree are public.",
    ),
    Entry(
        name="ppfl-alignment",
        title="PPFL-GNN, Figures 3-6: alignment precision",
        paper=PAPER,
        cells=tuple(alignment()),
        seeds=SEEDS,
        quick=QUICK,
        about="At the last iteration, the GAT on its first fold. The paper's DeepWalk ends above "
        "90 % at k = 1. Its other figures are not printed.",
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
