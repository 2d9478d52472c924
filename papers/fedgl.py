"""FedGL's tables 2-6 and figures 5-14 (Chen et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from papers.drawings import over_columns, partitions
from papers.embeddings import scatters, silhouette
from papers.entry import SCORE, Cell, Entry, Source
from papers.readers import client_accuracy, global_accuracy

PAPER = "Chen et al., FedGL: Federated Graph Learning Framework with Global Self-Supervision, 2021."
QUICK = ("training.rounds=3", "training.local_epochs=2")
DATASETS = ("Cora", "CiteSeer", "ACM", "Wiki")
METHODS = {
    "Centralized": ("method={name: alone}", "centralised=true", "training.local_epochs=1"),
    "Federated": ("method.pseudo_labels=false", "method.pseudo_graph=false"),
    "w/o graph": ("method.pseudo_graph=false",),
    "w/o labels": ("method.pseudo_labels=false",),
    "FedGL": (),
}
# Equation 9's D as section 3.1 defines it, and equations 7 and 8 as they are printed.
AS_PRINTED = {
    "paper's D": ("method.degree=weight",),
    "paper's sums": ("method.loss=sum",),
    "paper's D and sums": ("method.degree=weight", "method.loss=sum"),
}
BOTH = "paper's D and sums"
LOCAL = ("method={name: alone}", "training.local_epochs=1")
NUM_CLIENTS = 6


def accuracy(
    data: str,
    row: str,
    column: str,
    overrides: Sequence[str],
    paper: float | None = None,
) -> Cell:
    """Test accuracy of the global model on the union graph; the paper's is given as a share."""
    source = Source(f"fedgl_{data.lower()}.yaml", tuple(overrides))
    printed = None if paper is None else round(100 * paper, 6)
    return Cell(row, column, (source,), global_accuracy, printed)


def by_method(
    data: str,
    row: str,
    overrides: Sequence[str],
    paper: Sequence[float],
    every_reading: bool = False,
) -> Iterator[Cell]:
    for (method, own_overrides), value in zip(METHODS.items(), paper, strict=True):
        yield accuracy(data, row, method, [*own_overrides, *overrides], value)
    for reading, own_overrides in AS_PRINTED.items():
        if every_reading or reading == BOTH:
            yield accuracy(data, row, reading, [*own_overrides, *overrides])


def table2() -> Iterator[Cell]:
    paper = {
        "Cora": (0.811, 0.810, 0.828, 0.812, 0.830),
        "CiteSeer": (0.705, 0.676, 0.732, 0.676, 0.734),
        "ACM": (0.848, 0.855, 0.892, 0.858, 0.891),
        "Wiki": (0.619, 0.678, 0.689, 0.673, 0.691),
    }
    for data, values in paper.items():
        yield from by_method(data, data, (), values, every_reading=True)


def table3() -> Iterator[Cell]:
    paper = {
        ("Cora", 5): (0.549, 0.587, 0.629, 0.580, 0.640),
        ("Cora", 10): (0.698, 0.689, 0.733, 0.692, 0.737),
        ("Cora", 15): (0.740, 0.738, 0.799, 0.739, 0.806),
        ("CiteSeer", 5): (0.555, 0.577, 0.610, 0.579, 0.605),
        ("CiteSeer", 10): (0.636, 0.644, 0.635, 0.646, 0.620),
        ("CiteSeer", 15): (0.648, 0.662, 0.708, 0.662, 0.710),
        ("ACM", 15): (0.723, 0.754, 0.811, 0.760, 0.852),
        ("ACM", 25): (0.845, 0.855, 0.892, 0.855, 0.892),
        ("ACM", 35): (0.902, 0.902, 0.908, 0.901, 0.903),
        ("Wiki", 5): (0.345, 0.464, 0.484, 0.463, 0.482),
        ("Wiki", 10): (0.435, 0.516, 0.551, 0.510, 0.550),
        ("Wiki", 15): (0.524, 0.646, 0.624, 0.638, 0.651),
    }
    for (data, labels), values in paper.items():
        split = f"data.split={{kind: random, labels_per_class: {labels}}}"
        yield from by_method(data, f"{data} {labels} per class", (split,), values)


def federated_and_fedgl(
    key: str,
    columns: dict[str, str],
    paper: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]],
) -> Iterator[Cell]:
    """Two rows per dataset; every column sets `key` otherwise."""
    for data, rows in paper.items():
        for method, values in zip(("Federated", "FedGL"), rows, strict=True):
            for (column, setting), value in zip(columns.items(), values, strict=True):
                overrides = [*METHODS[method], f"{key}={setting}"]
                yield accuracy(data, f"{data} {method}", column, overrides, value)
        for column, setting in columns.items():
            overrides = [*AS_PRINTED[BOTH], f"{key}={setting}"]
            yield accuracy(data, f"{data} {BOTH}", column, overrides)


def table4() -> Iterator[Cell]:
    columns = {"30 %": "0.3", "50 %": "0.5", "70 %": "0.7", "90 %": "0.9"}
    paper = {
        "Cora": ((0.798, 0.798, 0.815, 0.814), (0.822, 0.826, 0.826, 0.828)),
        "CiteSeer": ((0.651, 0.674, 0.686, 0.684), (0.736, 0.736, 0.738, 0.738)),
        "ACM": ((0.777, 0.841, 0.840, 0.844), (0.862, 0.886, 0.868, 0.888)),
        "Wiki": ((0.668, 0.684, 0.686, 0.686), (0.696, 0.695, 0.698, 0.696)),
    }
    yield from federated_and_fedgl("training.participation", columns, paper)


def table5() -> Iterator[Cell]:
    sizes = ((30, 40, 50), (20, 40, 60), (50, 60, 70, 80), (20, 40, 50, 70, 70, 90))
    columns = {" ".join(map(str, size)): str([s / 100 for s in size]) for size in sizes}
    paper = {
        "Cora": ((0.778, 0.794, 0.808, 0.810), (0.816, 0.817, 0.838, 0.824)),
        "CiteSeer": ((0.690, 0.692, 0.706, 0.702), (0.730, 0.692, 0.741, 0.747)),
        "ACM": ((0.718, 0.758, 0.875, 0.849), (0.609, 0.625, 0.888, 0.885)),
        "Wiki": ((0.666, 0.657, 0.686, 0.682), (0.671, 0.684, 0.701, 0.694)),
    }
    yield from federated_and_fedgl("partition.shares", columns, paper)


def table6() -> Iterator[Cell]:
    paper = {
        ("Cora", 5): (0.797, 0.800, 0.829, 0.795, 0.828),
        ("Cora", 10): (0.800, 0.802, 0.828, 0.805, 0.817),
        ("Cora", 15): (0.794, 0.790, 0.820, 0.794, 0.818),
        ("CiteSeer", 5): (0.696, 0.692, 0.730, 0.699, 0.730),
        ("CiteSeer", 10): (0.681, 0.670, 0.632, 0.676, 0.720),
        ("CiteSeer", 15): (0.699, 0.700, 0.733, 0.700, 0.736),
        ("ACM", 5): (0.870, 0.870, 0.870, 0.870, 0.872),
        ("ACM", 10): (0.716, 0.708, 0.717, 0.708, 0.712),
        ("ACM", 15): (0.890, 0.891, 0.891, 0.892, 0.893),
        ("Wiki", 5): (0.691, 0.690, 0.694, 0.690, 0.695),
        ("Wiki", 10): (0.664, 0.659, 0.666, 0.668, 0.664),
        ("Wiki", 15): (0.680, 0.675, 0.677, 0.683, 0.674),
    }
    for (data, overlap), values in paper.items():
        setting = f"partition.overlap={overlap / 100}"
        yield from by_method(data, f"{data} {overlap} %", (setting,), values)


def embedded() -> Iterator[Cell]:
    for data in DATASETS[:3]:
        for method, own in list(METHODS.items())[1:]:
            source = Source(f"fedgl_{data.lower()}.yaml", own)
            yield Cell(data, method, (source,), silhouette, unit=SCORE)


def clients() -> Iterator[Cell]:
    methods = {"Local": LOCAL, "Federated": METHODS["Federated"], "FedGL": ()}
    for data in DATASETS:
        for method, own in methods.items():
            for number in range(NUM_CLIENTS):
                source = Source(f"fedgl_{data.lower()}.yaml", own)
                read = client_accuracy(number)
                yield Cell(f"{data} {method}", f"C{number + 1}", (source,), read)


def swept(setting: str, values: Sequence[float]) -> Iterator[Cell]:
    """FedGL with one setting swept; Federated, which does not have it, stands first."""
    for data in DATASETS:
        yield accuracy(data, data, "Federated", METHODS["Federated"])
        for value in values:
            yield accuracy(data, data, f"{value:g}", [f"method.{setting}={value:g}"])


def sweep_entry(figure: int, setting: str, words: str, values: Sequence[float]) -> Entry:
    return Entry(
        name=f"fedgl-{setting.replace('num_neighbors', 'neighbours')}",
        title=f"FedGL, Figure {figure}: {words}",
        paper=PAPER,
        cells=tuple(swept(setting, values)),
        seeds=1,
        quick=QUICK,
        about="The paper shows this as a figure without numbers. One seed unless asked for more.",
        draw=(over_columns(words, "Test accuracy in percent, Federated beside it."),),
    )


TENTHS = tuple(n / 10 for n in range(11))

ENTRIES = (
    Entry(
        name="fedgl-table2",
        title="FedGL, Table 2: fixed split",
        paper=PAPER,
        cells=tuple(table2()),
        seeds=5,
        quick=QUICK,
        about="ACM and Wiki have no published split: ours is 20 labels per class, 500 and 1000 "
        "nodes, drawn once.",
    ),
    Entry(
        name="fedgl-table3",
        title="FedGL, Table 3: random splits with few labels",
        paper=PAPER,
        cells=tuple(table3()),
        seeds=5,
        quick=QUICK,
    ),
    Entry(
        name="fedgl-table4",
        title="FedGL, Table 4: participation per round",
        paper=PAPER,
        cells=tuple(table4()),
        seeds=5,
        quick=QUICK,
        draw=(over_columns("participation", "Test accuracy in percent. Dashed: the paper's."),),
    ),
    Entry(
        name="fedgl-table5",
        title="FedGL, Table 5: number and size of clients",
        paper=PAPER,
        cells=tuple(table5()),
        seeds=5,
        quick=QUICK,
        about="Columns name the clients' shares of the nodes, in percent.",
    ),
    Entry(
        name="fedgl-table6",
        title="FedGL, Table 6: overlap of clients",
        paper=PAPER,
        cells=tuple(table6()),
        seeds=5,
        quick=QUICK,
        about="Overlap is the share of nodes that all clients hold.",
    ),
    Entry(
        name="fedgl-embeddings",
        title="FedGL, Figures 5-7: t-SNE of the embeddings",
        paper=PAPER,
        cells=tuple(embedded()),
        seeds=5,
        quick=QUICK,
        about="The paper shows pictures only. The numbers are mean silhouettes of the test nodes' "
        "classes, from -1 (mixed) to 1 (far apart), before t-SNE. Centralized is left out: a party "
        "alone releases no model.",
        draw=(scatters,),
    ),
    Entry(
        name="fedgl-clients",
        title="FedGL, Figures 8-10: the clients and their accuracy",
        paper=PAPER,
        cells=tuple(clients()),
        seeds=5,
        quick=QUICK,
        about="The local goal: every client's own test nodes. The paper shows figures without "
        "numbers.",
        draw=(over_columns("client", "Accuracy on the client's own test nodes."), partitions),
    ),
    sweep_entry(11, "threshold", "confidence threshold", TENTHS[1:10]),
    sweep_entry(12, "alpha", "weight of the pseudo labels", TENTHS),
    sweep_entry(13, "beta", "weight of the pseudo graph", TENTHS),
    sweep_entry(
        14, "num_neighbors", "neighbours kept per node", (5, 10, 30, 50, 100, 200, 500, 1000)
    ),
)
