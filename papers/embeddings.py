"""Node embeddings of a released model: how well classes lie apart, and t-SNE's picture of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from papers.entry import Measured
from papers.spreads import Scatter, draw_scatter
from securefg.foundation.errors import RunFolderError
from securefg.methods.registry import get_method
from securefg.reports.figures.canvas import Figure
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.runs.release_file import read_release

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def embeddings_of_test_nodes(folder: RunFolder) -> tuple[Floats, Ints]:
    """The final layer's outputs for the test nodes of the union graph, and the nodes' classes."""
    experiment = prepare(folder.config())
    method = get_method(experiment.config.method.name)
    release = read_release(folder.path / "model.safetensors", method)
    evaluator = method.make_evaluator and method.make_evaluator(
        experiment.union, experiment.config.method, experiment.public.device
    )
    answers = evaluator.answers(release) if evaluator and release else None
    if answers is None:
        raise RunFolderError(f"{folder.path}: {method.name} released no model to embed nodes with")
    test = experiment.union.split.test
    return answers[test].double().cpu().numpy(), experiment.union.labels[test].numpy()


def silhouette(runs: Sequence[RunFolder]) -> float:
    """Mean silhouette of the classes, from -1 (mixed) to 1 (far apart)."""
    return float(silhouette_score(*embeddings_of_test_nodes(runs[0])))


def scatters(ours: Measured) -> list[Figure]:
    """The first seed's embeddings in the plane, a figure per cell, coloured by class."""
    figures = []
    for cell in ours.cells:
        for runs in ours.runs(cell)[:1]:
            embeddings, classes = embeddings_of_test_nodes(runs[0])
            name = f"{cell.row}: {cell.column}"
            svg = draw_scatter(Scatter(f"{name}, t-SNE.", _groups(embeddings, classes)))
            figures.append(Figure(name, "Test nodes by class, t-SNE, first seed.", svg))
    return figures


def _groups(embeddings: Floats, classes: Ints) -> tuple[tuple[tuple[float, float], ...], ...]:
    perplexity = min(30.0, (len(embeddings) - 1) / 3)
    mapper = TSNE(perplexity=perplexity, init="pca", random_state=0, max_iter=600)
    with threadpool_limits(1):  # its threads spin: on a busy machine one is faster than many
        flat = mapper.fit_transform(embeddings)
    kinds = np.unique(classes)
    return tuple(tuple((float(a), float(b)) for a, b in flat[classes == kind]) for kind in kinds)
