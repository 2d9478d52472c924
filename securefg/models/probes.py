"""How well an embedding tells the classes: a linear probe for every round, MLP and SVC at the end.

Micro-F1 of one label per node is the accuracy. Both classifiers are scikit-learn's with its
defaults, on the embedding as it is.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

Integers = NDArray[np.int64]


def linear_probe(
    embedding: Tensor, labels: Tensor, train: Tensor, num_classes: int, ridge: float = 1.0
) -> Tensor:
    """Return class scores of all nodes from least squares on the training nodes' standardised
    rows. Without training nodes no class scores above another."""
    rows = embedding.double()
    if not bool(train.any()):
        return rows.new_zeros(len(rows), num_classes)
    spread = rows[train].std(0, correction=0).clamp_min(1e-12)
    rows = (rows - rows[train].mean(0)) / spread
    rows = torch.cat([rows, torch.ones_like(rows[:, :1])], 1)
    targets = one_hot(labels[train], num_classes).double()
    gram = rows[train].T @ rows[train]
    penalty = ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights = torch.linalg.solve(gram + penalty, rows[train].T @ targets)
    scores: Tensor = rows @ weights
    return scores


def held_out_f1(
    embedding: Tensor, labels: Tensor, train: Tensor, test: Tensor, seed: int
) -> dict[str, float]:
    """Return the F1 of both classifiers, fitted to the training nodes and scored on the test
    nodes. A client whose nodes cannot be fitted or scored has no F1."""
    rows, classes = embedding.cpu().numpy(), labels.cpu().numpy()
    fit, score = train.cpu().nonzero()[:, 0].numpy(), test.cpu().nonzero()[:, 0].numpy()
    return _f1_scores(rows, classes, [(fit, score)], seed)


def cross_validated_f1(
    embedding: Tensor, labels: Tensor, num_folds: int, seed: int
) -> dict[str, float]:
    """Return the F1 of both classifiers over stratified folds of all rows. It is right only if no
    label was used to make the embedding. With fewer nodes than folds in every class there is no
    F1."""
    rows, classes = embedding.cpu().numpy(), labels.cpu().numpy()
    rows, classes = rows[classes >= 0], classes[classes >= 0]
    if np.bincount(classes, minlength=1).max() < num_folds:
        return {}
    from sklearn.model_selection import StratifiedKFold  # loaded where it is used

    folds = StratifiedKFold(num_folds, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # A class with fewer members than folds is missing from some of them.
        warnings.simplefilter("ignore", UserWarning)
        return _f1_scores(rows, classes, list(folds.split(rows, classes)), seed)


def _f1_scores(
    rows: NDArray[np.float32],
    classes: Integers,
    folds: list[tuple[Integers, Integers]],
    seed: int,
) -> dict[str, float]:
    from sklearn.exceptions import ConvergenceWarning  # seconds that most runs need not pay
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    scores: dict[str, list[float]] = {"mlp_f1": [], "svc_f1": []}
    for fit, score in folds:
        if not len(score) or len(np.unique(classes[fit])) < 2:
            continue
        models = {"mlp_f1": MLPClassifier(random_state=seed % 2**32), "svc_f1": SVC()}
        for name, model in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(rows[fit], classes[fit])
            scores[name].append(float((model.predict(rows[score]) == classes[score]).mean()))
    return {name: float(np.mean(values)) for name, values in scores.items() if values}
