"""Rivals of the best method that needs nobody else, by a reader who tries to refute the table.

    SECUREFG_DATA=... python benchmarks/private_rivals.py users [--data cora citeseer pubmed]
    SECUREFG_DATA=... python benchmarks/private_rivals.py silos CONFIG [--set A=B] [--seeds 2]

"users": methods of a server that has the graph and some labels and asks no user. Each family is
tuned on the public validation nodes, which the private model does not use. "silos": each silo's own
methods, beside those of `best_alone`. A rival counts with what validation nodes choose, and with
what its best variant reaches on test nodes, which nobody could choose.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import csr_array, diags_array, eye_array, hstack
from scipy.sparse.linalg import eigsh, svds
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.roles import Site
from securefg.methods.at_home import (
    _fit_regression,
    choose_clearly,
    describe_surroundings,
    hits_of,
    predict_alone,
    spread_over_links,
)
from securefg.methods.best_alone.candidates import CANDIDATES
from securefg.methods.two_sums.features import known_labels, links_of, own_rows
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import load_config, parse_config

Floats = NDArray[np.float64]
Found = Iterator[tuple[str, Floats]]
"""Scores of all nodes, (n, C), by a variant's name."""


def degrees_of(links: csr_array) -> Floats:
    return np.maximum(np.asarray(links.sum(1), np.float64).reshape(-1), 1.0)


def fit_rows(rows: csr_array, labels: Floats, train: NDArray[np.bool_], loose: float) -> Floats:
    """Return logits of all nodes by logistic regression on these rows."""
    rows = csr_array(hstack([rows, csr_array(np.ones((rows.shape[0], 1)))]))
    shape, train_rows, wanted = (rows.shape[1], labels.shape[1]), rows[train], labels[train]

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        logits = train_rows @ weights
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
        value = -(logits * wanted).sum() + 0.5 * (weights**2).sum() / loose
        return float(value), (train_rows.T @ (np.exp(logits) - wanted) + weights / loose).ravel()

    found, _, _ = fmin_l_bfgs_b(objective, np.zeros(shape[0] * shape[1]), maxiter=100)
    return rows @ found.reshape(shape)


# ------------------------------------------------------------------- a server that asks nobody


def propagations(links: csr_array, labels: Floats, train: NDArray[np.bool_]) -> Found:
    """Yield label propagation by both normalisations, with and without balanced classes."""
    degrees, count = degrees_of(links), len(train)
    loops = csr_array(links + eye_array(count))
    wide = np.asarray(loops.sum(1)).reshape(-1)
    forms = {
        "symmetric with loops": diags_array(wide**-0.5) @ loops @ diags_array(wide**-0.5),
        "symmetric": diags_array(degrees**-0.5) @ links @ diags_array(degrees**-0.5),
        "by row": diags_array(1 / degrees) @ links,
        "by column": links @ diags_array(1 / degrees),
    }
    for name, form in forms.items():
        for teleport in (0.01, 0.05, 0.1, 0.2, 0.4):
            label_shares = labels
            for _ in range(200):
                label_shares = (1 - teleport) * (form @ label_shares) + teleport * labels
            yield f"propagation {name}, {teleport}", label_shares
            yield f"propagation {name}, {teleport}, balanced", label_shares / label_shares.sum(0)
    label_shares = np.full_like(labels, 1 / labels.shape[1])
    for _ in range(300):  # harmonic functions: known labels stay
        label_shares = np.where(
            train[:, None], labels, diags_array(1 / degrees) @ links @ label_shares
        )
    yield "harmonic", label_shares
    yield "harmonic, balanced", label_shares / label_shares[~train].sum(0)


def embeddings(links: csr_array, labels: Floats, train: NDArray[np.bool_]) -> Found:
    """Yield regressions on spectral coordinates and on DeepWalk as a matrix (NetMF, window 10)."""
    degrees = degrees_of(links)
    normal = csr_array(diags_array(degrees**-0.5) @ links @ diags_array(degrees**-0.5))
    for dim in (32, 128):
        values, vectors = eigsh(normal, k=dim, which="LA", v0=np.ones(len(train)))
        filtered = sum(np.abs(values) ** r for r in range(1, 11)) / 10
        rows = diags_array(degrees**-0.5) @ (vectors * np.sqrt(filtered))
        scale = np.linalg.norm(rows, axis=1, keepdims=True)
        unit = csr_array(rows / np.maximum(scale, 1e-12))
        for loose in (0.1, 1.0, 10.0):
            yield f"spectral {dim}, {loose}", fit_rows(unit, labels, train, loose)
    walk, total = csr_array(diags_array(1 / degrees) @ links), 0.0
    step = csr_array(eye_array(len(train)))
    for _ in range(10 if len(train) < 5000 else 3):
        step = step @ walk
        total = total + step
    window = 10 if len(train) < 5000 else 3
    near = csr_array(total @ diags_array(degrees.sum() / degrees / window))
    near.data = np.log(np.maximum(near.data, 1.0))
    for dim in (64, 128):
        left, sizes, _ = svds(near, k=dim, v0=np.ones(len(train)))
        for loose in (0.1, 1.0, 10.0):
            rows = csr_array(left * np.sqrt(sizes))
            yield f"NetMF {dim}, {loose}", fit_rows(rows, labels, train, loose)


def gcn_without_features(links: csr_array, labels: Floats, train: NDArray[np.bool_]) -> Found:
    """Yield a GCN whose features are the node's own number, with several hidden widths."""
    loops = csr_array(links + eye_array(len(train)))
    wide = np.asarray(loops.sum(1)).reshape(-1)
    form = (diags_array(wide**-0.5) @ loops @ diags_array(wide**-0.5)).tocoo()
    place = torch.from_numpy(np.stack(form.coords)).long()
    adjacency = torch.sparse_coo_tensor(place, torch.from_numpy(form.data).float(), form.shape)
    adjacency = adjacency.coalesce()
    is_train, wanted = torch.from_numpy(train), torch.from_numpy(labels.argmax(1))
    for width in (16, 64):
        for decay in (5e-4, 5e-3):
            torch.manual_seed(0)
            first = torch.nn.Parameter(0.1 * torch.randn(len(train), width))
            second = torch.nn.Parameter(0.3 * torch.randn(width, labels.shape[1]))
            steps = torch.optim.Adam([first, second], lr=0.01, weight_decay=decay)

            for _ in range(200):
                hidden = torch.dropout(torch.relu(adjacency @ first), 0.5, True)
                logits = (adjacency @ (hidden @ second))[is_train]
                loss = torch.nn.functional.cross_entropy(logits, wanted[is_train])
                steps.zero_grad()
                loss.backward()
                steps.step()
            logits = adjacency @ (torch.relu(adjacency @ first) @ second)
            yield f"GCN on numbers {width}, {decay}", logits.detach().double().numpy()


def tell_users(names: list[str]) -> None:
    print("| data | family | chosen on validation nodes | reached | best on test nodes |")
    print("|---|---|---|---|---|")
    for name in names:
        data = {"method": {"name": "alone"}, "data": {"name": name}}
        graph = prepare(
            parse_config({**data, "partition": {"name": "random", "num_clients": 1}})
        ).union
        links, labels = csr_array(links_of(graph)), known_labels(graph).numpy()
        train, truth = graph.split.train.numpy(), graph.labels.numpy()
        for family in (propagations, embeddings, gcn_without_features):
            candidate_scores = []
            for variant, scores in family(links, labels, train):
                right = scores.argmax(1) == truth
                candidate_scores.append(
                    (
                        right[graph.split.val.numpy()].mean(),
                        right[graph.split.test.numpy()].mean(),
                        variant,
                    )
                )
            _, test, variant = max(candidate_scores)
            best = max(reached for _, reached, _ in candidate_scores)
            print(f"| {name} | {family.__name__} | {variant} | {test:.3f} | {best:.3f} |")


# ------------------------------------------------------------------------------------ silos


def correct_and_smooth(graph: Graph, start: Floats, alpha: float = 0.8) -> Floats:
    """Return probabilities after errors were spread and added, then labels were spread (Huang et
    al. 2021)."""
    links, labels = csr_array(links_of(graph)), known_labels(graph).numpy()
    degrees, is_known = degrees_of(links), graph.split.train.numpy()[:, None]
    form = diags_array(degrees**-0.5) @ links @ diags_array(degrees**-0.5)
    wrong = first = np.where(is_known, labels - start, 0.0)
    for _ in range(50):
        wrong = alpha * (form @ wrong) + (1 - alpha) * first
    size = np.abs(first[is_known[:, 0]]).sum(1).mean() if is_known.any() else 0.0
    scale = size / np.maximum(np.abs(wrong).sum(1, keepdims=True), 1e-12)
    corrected = start + np.minimum(scale, 1000.0) * wrong * (scale < 1000)
    found = first = np.where(is_known, labels, corrected)
    for _ in range(50):
        found = alpha * (form @ found) + (1 - alpha) * first
    return found


def wide_rows(graph: Graph) -> csr_array:
    """Return own features, labels and features one and two links away, and propagated labels."""
    links = csr_array(links_of(graph))
    mean = csr_array(diags_array(1 / degrees_of(links)) @ links)
    labels = known_labels(graph).numpy()
    near = mean @ mean
    near.setdiag(0)
    counts = np.asarray(near @ labels)
    spread = spread_without_own(mean, labels)
    second = csr_array(mean @ (mean @ csr_array(own_rows(graph).numpy())))
    return csr_array(
        hstack([describe_surroundings(graph), second, csr_array(counts), csr_array(spread)])
    )


def spread_without_own(mean: csr_array, labels: Floats) -> Floats:
    """Return labels two to four links away, without what comes straight back."""
    found, total = mean @ labels, np.zeros_like(labels)
    back = np.asarray((mean.multiply(mean.T)).sum(1)).reshape(-1, 1)
    two = mean @ found - back * labels
    total += two + mean @ two
    return total


def rivals(graph: Graph) -> Found:
    """Yield a silo's own methods that `best_alone` does not have."""
    zeros, labels = np.zeros((graph.num_nodes, graph.num_classes)), known_labels(graph).numpy()
    train = graph.split.train.numpy()
    if not train.any():
        return
    base = torch.softmax(predict_alone(graph, share=0.0), 1).numpy()
    yield "regression, correct and smooth", correct_and_smooth(graph, base)
    own = csr_array(own_rows(graph).numpy())
    plain = torch.softmax(torch.from_numpy(fit_rows(own, labels, train, 10.0)), 1).numpy()
    yield "own features, correct and smooth", correct_and_smooth(graph, plain)
    for loose in (1.0, 10.0):
        rows = torch.softmax(torch.from_numpy(fit_rows(wide_rows(graph), labels, train, loose)), 1)
        yield f"two links away, {loose}", rows.numpy()
        yield f"two links away, {loose}, spread", spread_over_links(graph, rows.numpy())
    for loose in (0.3, 1.0, 100.0):
        fitted = _fit_regression(graph, zeros, loose)
        for share in (0.0, 0.8):
            yield f"regression {loose}, spread {share}", spread_over_links(graph, fitted, share)


def score_silos(experiment: Experiment) -> dict[str, float]:
    """Return test accuracy over all silos: by `best_alone`, with the rivals, and by each alone."""
    hits: dict[str, list[Tensor]] = defaultdict(list)
    for shard in experiment.shards:
        graph = shard.graph
        site = Site(
            [shard], experiment.config.method, experiment.config.training, 0, torch.device("cpu")
        )
        silo_scores = {name: make(graph, site) for name, make in CANDIDATES.items()}
        mine = {name: torch.from_numpy(scores) for name, scores in rivals(graph)}
        test = graph.split.test
        for name, few in (
            ("best_alone", silo_scores),
            ("best_alone and rivals", {**silo_scores, **mine}),
        ):
            logits = list(few.values())
            chosen = logits[choose_clearly([hits_of(graph, one) for one in logits])]
            hits[name].append(chosen[test].argmax(1) == graph.labels[test])
            most = max(logits, key=lambda one: int(hits_of(graph, one).sum()))
            hits[f"{name}, most right on validation nodes"].append(
                most[test].argmax(1) == graph.labels[test]
            )
        for name, scores in {**silo_scores, **mine}.items():
            hits[name].append(scores[test].argmax(1) == graph.labels[test])
    whole = sum(len(h) for h in hits["best_alone"])
    return {name: float(torch.cat(found).double().sum()) / whole for name, found in hits.items()}


def tell_silos(config: Path, overrides: list[str], seeds: int) -> None:
    values_by_name: dict[str, list[float]] = defaultdict(list)
    for seed in range(400, 400 + seeds):
        changed = ["privacy={}", "method={name: best_alone, links: 20}", *overrides, f"seed={seed}"]
        for name, value in score_silos(prepare(load_config(config, changed))).items():
            values_by_name[name].append(value)
    for name, values in values_by_name.items():
        print(f"| {config.stem} | {name} | {np.mean(values):.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("users", "silos"))
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", default=["cora", "citeseer", "pubmed"])
    parser.add_argument("--set", nargs="*", default=[], dest="overrides")
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "users":
        tell_users(given.data)
    else:
        tell_silos(given.config, given.overrides, given.seeds)


if __name__ == "__main__":
    main()
