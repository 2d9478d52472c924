"""Ten banks over five splits by pattern: local, joint, federated and private training.

    python table.py RAW OUT               RAW as for read.py; OUT gets tables, runs and table.json

Every figure is an average precision: over each bank's own test accounts, banks counted by their
test positives. `joint` alone is over all test accounts together. The reference is a balanced
logistic regression on all banks' training accounts. "Best local" is the best of six methods that
every bank trains on its own accounts, by the validation accounts of all banks together.
Intervals are 95 %, by Student's t over the splits, of the difference to each of the two.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import read
import yaml
from scipy import stats
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import securefg
from securefg.data.tabular.prepare import prepared, write_prepared
from securefg.settings.tables import table_settings

HERE = Path(__file__).parent
REFERENCE = "joint logistic regression"
LOCAL = "best local"
EPSILONS = (8, 2, 1)
LINK_COLUMNS = 14


def regression(inverse_penalty: float) -> ClassifierMixin:
    """Return balanced logistic regression on standardised columns."""
    model = LogisticRegression(C=inverse_penalty, class_weight="balanced", max_iter=3000)
    return make_pipeline(StandardScaler(), model)


def candidates() -> dict[str, ClassifierMixin]:
    """Return what a bank may train by itself, in the order of preference."""
    candidate_models = {f"regression, C = {c:g}": regression(c) for c in (1, 0.1, 0.01)}
    forest = {"class_weight": "balanced_subsample", "random_state": 0}
    candidate_models["forest"] = RandomForestClassifier(200, min_samples_leaf=2, **forest)
    candidate_models["forest, coarse"] = RandomForestClassifier(200, min_samples_leaf=8, **forest)
    candidate_models["boosted trees"] = HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.1, class_weight="balanced", random_state=0
    )
    return candidate_models


def arms() -> Iterator[tuple[str, dict[str, Any]]]:
    """The runs of one split, by name."""
    federated = yaml.safe_load((HERE / "banks.yaml").read_text())
    defaults = yaml.safe_load((HERE / "defaults.yaml").read_text())
    private = yaml.safe_load((HERE / "private.yaml").read_text())
    mlp = {"name": "alone", "network": "mlp", "hidden": 32}
    yield "local", {**federated, "method": mlp}
    yield "joint", {**federated, "method": mlp, "centralised": True}
    yield "federated", federated
    yield "federated, defaults", defaults
    yield (
        "own sums, local",
        {**private, "method": {"name": "own_sums", "graph": False}, "privacy": {}},
    )
    yield "sums, no noise", {**private, "privacy": {"secure_aggregation": {"dropout": 0.0}}}
    for epsilon in EPSILONS:
        privacy = {**private["privacy"], "target_epsilon": epsilon}
        yield f"private, epsilon {epsilon}", {**private, "privacy": privacy}
        linked = {**private["method"], "link_columns": LINK_COLUMNS}
        yield (
            f"private, links covered, epsilon {epsilon}",
            {**private, "privacy": privacy, "method": linked},
        )


def weighted(scores: dict[int, float], positives: dict[int, int]) -> float:
    """Return the mean over banks, counted by their test positives."""
    total = sum(positives[bank] for bank in scores)
    return sum(value * positives[bank] for bank, value in scores.items()) / total


class Split:
    """One split: its prepared folder, and every bank's test accounts."""

    def __init__(self, raw: Path, out: Path, number: int, kind: str = "") -> None:
        name = f"{number}{kind and '-'}{kind}"
        self.folder, tables = out / f"prepared-{name}", out / f"tables-{name}"
        if not self.folder.is_dir():
            read.write_banks(raw, tables, number, kind == "links", kind == "defaults")
            write_prepared(prepared(tables, table_settings(tables)), self.folder)
        self.x = np.load(self.folder / "features.npz")["x"]
        self.y = np.load(self.folder / "labels.npz")["y"]
        parts = np.loadtxt(self.folder / "split.csv", str, delimiter=",", skiprows=1)
        self.part = np.full(len(self.y), "", object)
        self.part[parts[:, 0].astype(int)] = parts[:, 1]
        clients = np.loadtxt(self.folder / "clients.csv", int, delimiter=",", skiprows=1)
        self.bank = np.empty(len(self.y), int)
        self.bank[clients[:, 0]] = clients[:, 1]

    def by_bank(
        self, scores: np.ndarray, part: str = "test"
    ) -> tuple[dict[int, float], dict[int, int]]:
        """Return every bank's average precision and positives on a part of its accounts."""
        score_by_bank, positives = {}, {}
        for bank in range(self.bank.max() + 1):
            test = (self.bank == bank) & (self.part == part)
            if self.y[test].any():
                score_by_bank[bank] = float(average_precision_score(self.y[test], scores[test]))
                positives[bank] = int(self.y[test].sum())
        return score_by_bank, positives

    def reference(self) -> dict[str, Any]:
        """Return the scores of logistic regression on all banks' accounts."""
        train = self.part == "train"
        scaled = StandardScaler().fit(self.x[train]).transform(self.x)
        model = LogisticRegression(class_weight="balanced", max_iter=3000)
        scores = model.fit(scaled[train], self.y[train]).decision_function(scaled)
        found, positives = self.by_bank(scores)
        return {"pooled": weighted(found, positives), "banks": found, "positives": positives}

    def best_local(self) -> dict[str, Any]:
        """Return the scores of the best method that every bank trains by itself."""
        tried = {name: self._trained_apart(name) for name in candidates()}
        on_val = {name: weighted(*self.by_bank(one, "val")) for name, one in tried.items()}
        chosen = max(on_val, key=lambda name: on_val[name])
        score_by_bank, positives = self.by_bank(tried[chosen])
        every = {name: weighted(*self.by_bank(one)) for name, one in tried.items()}
        pooled = weighted(score_by_bank, positives)
        about = {"chosen": chosen, "tried": every, "validation": on_val}
        return {"pooled": pooled, "banks": score_by_bank, "positives": positives, **about}

    def _trained_apart(self, name: str) -> np.ndarray:
        """Return the scores of all accounts, each by its own bank's model."""
        scores = np.zeros(len(self.y))
        for bank in range(self.bank.max() + 1):
            is_own = self.bank == bank
            train = is_own & (self.part == "train")
            if len(np.unique(self.y[train])) < 2:
                continue
            model = candidates()[name].fit(self.x[train], self.y[train])
            scores[is_own] = model.predict_proba(self.x[is_own])[:, 1]
        return scores

    def run(self, config: dict[str, Any], out: Path, seed: int) -> dict[str, Any]:
        """Return the scores of a run on every bank's test accounts."""
        config = {**config, "seed": seed, "output": {"root": str(out), "transcript_every": 0}}
        config["data"] = {"name": "folder", "folder": str(self.folder)}
        summary = securefg.run(config).summary
        banks = {int(bank): one for bank, one in summary.alerts.items()}
        known = {b: one.average_precision for b, one in banks.items() if one.average_precision}
        positives = {bank: one.positives for bank, one in banks.items()}
        node = summary.epsilon.get("node")
        return {
            "pooled": weighted(known, positives),
            "banks": known,
            "recall": {b: one.first.recall for b, one in banks.items() if one.first},
            "epsilon": None if node is None else node.epsilon,
            "seconds": summary.seconds,
        }


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval by Student's t."""
    mean, count = float(np.mean(values)), len(values)
    half = float(stats.t.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count))
    return mean, mean - half, mean + half


def table_lines(results: list[dict[str, Any]]) -> Iterator[str]:
    """The table as Markdown: the mean, and the paired differences to the reference and to the best
    local method."""
    head = ("training", "average precision", "difference to the reference", "to the best local")
    yield f"| {' | '.join(head)} |"
    yield "|---|---|---|---|"
    for name in results[0]:
        values = [one[name]["pooled"] for one in results]
        gaps = [difference(results, name, other) for other in (REFERENCE, LOCAL)]
        mean, low, high = interval(values)
        yield f"| {name} | {mean:.3f} ({low:.3f} to {high:.3f}) | {gaps[0]} | {gaps[1]} |"


def difference(results: list[dict[str, Any]], name: str, other: str) -> str:
    """Return the mean difference over splits with its interval, or nothing beside itself."""
    if name == other or other not in results[0]:
        return ""
    beside = [one[name]["pooled"] - one[other]["pooled"] for one in results]
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(*interval(beside))


def bank_lines(results: list[dict[str, Any]]) -> Iterator[str]:
    """Average precision by bank as Markdown: the mean over the splits with positives there."""
    banks = sorted({int(bank) for one in results for bank in one[REFERENCE]["banks"]})
    letters = [chr(ord("a") + bank) for bank in banks]
    yield f"| training | {' | '.join(letters)} |"
    yield "|---" * (len(banks) + 1) + "|"
    for name in results[0]:
        if any(len(one[name]["banks"]) < 2 for one in results):
            continue  # one ranking of all banks' accounts
        scored = [{int(b): v for b, v in one[name]["banks"].items()} for one in results]
        cells = [np.mean([one[bank] for one in scored if bank in one]) for bank in banks]
        yield f"| {name} | {' | '.join(f'{value:.2f}' for value in cells)} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    parser.add_argument("--only", action="append", help="names of runs; all by default")
    asked = parser.parse_args(arguments)
    results = []
    for number in range(asked.first, asked.first + asked.splits):
        split = Split(asked.raw, asked.out, number)
        others = {kind: Split(asked.raw, asked.out, number, kind) for kind in ("links", "defaults")}
        seed_results = {REFERENCE: split.reference(), LOCAL: split.best_local()}
        for name, config in arms():
            if asked.only and name not in asked.only:
                continue
            used = next((other for kind, other in others.items() if kind in name), split)
            seed_results[name] = used.run(config, asked.out / "runs", number)
            print(number, name, f"{seed_results[name]['pooled']:.3f}", flush=True)
        results.append(seed_results)
        (asked.out / "table.json").write_text(json.dumps(results, indent=1))
    print("\n".join(table_lines(results)))
    print("\n".join(["", *bank_lines(results)]))


if __name__ == "__main__":
    main()
