"""Membership findings in the report formats of SACRO-ML and LeakPro.

Both tools report attacks on membership by scores and truth of every target. An audit keeps these in
audit/scores.npz. Only what such a test measured is exported: no promises, no other secrets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import securefg
from attacks import get_attack
from audits import metrics
from audits.findings.record import Finding
from securefg.foundation.errors import ConfigError
from securefg.foundation.npz import read_npz
from securefg.protocol.secrets import MEMBER

Floats = NDArray[np.float64]
TENTH: Final = 0.1
RATES: Final = {
    **{f"TPR@{rate:g}": rate for rate in (0.1, 0.01, 0.001, 1e-5)},
    **{f"TPR@{rate:g}%": rate / 100 for rate in (50, 20, 10, 1, 0.1, 0.01, 0.001, 1e-5)},
}
"""By SACRO-ML's names: version 1 names shares, and version 2 percent."""
FIXED: Final = (0.0, 0.0001, 0.001, 0.01, 0.1)


@dataclass(frozen=True)
class Curve:
    """The counts at every threshold, from the highest score to the lowest."""

    tp: NDArray[np.int64]
    fp: NDArray[np.int64]
    members: int
    others: int

    @classmethod
    def of_scores(cls, truth: NDArray[np.int64], scores: Floats) -> Curve:
        """Count true and false positives at every distinct score."""
        order = np.argsort(-scores, kind="stable")
        last = np.append(np.diff(scores[order]) != 0, True)
        member = truth[order].astype(np.int64)
        tp, fp = np.cumsum(member)[last], np.cumsum(1 - member)[last]
        return cls(tp, fp, int(member.sum()), int((1 - member).sum()))

    @property
    def tpr(self) -> Floats:
        """Return the true positive rate at every threshold."""
        return self.tp / self.members

    @property
    def fpr(self) -> Floats:
        """Return the false positive rate at every threshold."""
        return self.fp / self.others

    @property
    def accuracy(self) -> Floats:
        """Return the share of right guesses at every threshold."""
        found: Floats = (self.tp + self.others - self.fp) / (self.members + self.others)
        return found

    def tpr_at(self, rate: float) -> float:
        """Return the largest true positive rate with at most so many false positives."""
        below = self.tpr[self.fpr <= rate]
        return float(below.max()) if len(below) else 0.0


@dataclass(frozen=True)
class Test:
    """A finding on membership, with the score and the truth of every target."""

    finding: Finding
    truth: NDArray[np.int64]
    scores: Floats

    @property
    def name(self) -> str:
        """Return the attack and the adversary."""
        return f"{self.finding.attack} {self.finding.adversary}"

    @property
    def auc(self) -> float:
        """Return the area under the curve."""
        return float(metrics.area_under_curve(self.truth, self.scores))


def read_tests(run: Path, findings: list[Finding]) -> list[Test]:
    """Return the tests of membership that an audit of this folder ran and kept."""
    path = run / "audit" / "scores.npz"
    kept = read_npz(path) if path.is_file() else {}
    kept_tests = []
    for finding in findings:
        name = f"{finding.attack}/{finding.adversary}"
        if f"{name}/truth" in kept and f"{name}/score" in kept and is_membership(finding):
            scores = kept[f"{name}/score"].astype(np.float64)
            kept_tests.append(Test(finding, kept[f"{name}/truth"].astype(np.int64), scores))
    if not kept_tests:
        raise ConfigError(
            "--format: found no test of membership in this audit; expected one with a score per "
            "target, as --only membership runs them"
        )
    return kept_tests


def is_membership(finding: Finding) -> bool:
    """Return whether a finding is about who was trained on."""
    try:
        secret = get_attack(finding.attack).question.secret
    except ConfigError:
        return False
    return secret is not None and secret.family == MEMBER.family


def as_sacro(tests: list[Test]) -> str:
    """Return a report.json of SACRO-ML, with an experiment for every test."""
    return json.dumps({test.name: _sacro_entry(test) for test in tests}, indent=1) + "\n"


def _sacro_entry(test: Test) -> dict[str, Any]:
    finding = test.finding
    params = {
        "adversary": finding.adversary,
        "unit": finding.unit,
        "metric": finding.metric,
        "threshold": "ACC, TPR, FPR and Advantage are at the best threshold of this test",
    }
    metadata = {
        "securefg_version": securefg.__version__,
        "sacroml_version": "",
        "attack_name": test.name,
        "attack_params": params,
        "global_metrics": {"verdict": finding.verdict.value, "because": finding.because},
    }
    instances = {"instance_0": _sacro_metrics(test)}
    return {"metadata": metadata, "attack_experiment_logger": {"attack_instance_logger": instances}}


def _sacro_metrics(test: Test) -> dict[str, Any]:
    curve = Curve.of_scores(test.truth, test.scores)
    best = int((curve.tpr - curve.fpr).argmax())
    spread = metrics.auc_null_sd(curve.members, curve.others)
    tail, tail_p = _tail_difference(test)
    return {
        "AUC": test.auc,
        "P_HIGHER_AUC": _upper_tail((test.auc - 0.5) / spread),
        "ACC": float(curve.accuracy[best]),
        "TPR": float(curve.tpr[best]),
        "FPR": float(curve.fpr[best]),
        "Advantage": float(curve.tpr[best] - curve.fpr[best]),
        "FDIF01": tail,
        "PDIF01": -math.log(max(tail_p, 1e-300)),
        **{name: curve.tpr_at(rate) for name, rate in RATES.items()},
        "n_pos_test_examples": curve.members,
        "n_neg_test_examples": curve.others,
        "fpr": [0.0, *curve.fpr.tolist()],  # its plots interpolate from the origin on
        "tpr": [0.0, *curve.tpr.tolist()],
    }


def _tail_difference(test: Test) -> tuple[float, float]:
    """Return the share of members in the highest tenth less that in the lowest, and its chance."""
    order = np.argsort(test.scores, kind="stable")
    count = math.ceil(TENTH * len(order))
    low, high = test.truth[order[:count]].mean(), test.truth[order[-count:]].mean()
    share = float(test.truth.mean())
    spread = math.sqrt(2 * share * (1 - share) / count)
    return float(high - low), _upper_tail(float(high - low) / spread)


def _upper_tail(score: float) -> float:
    return 0.5 * math.erfc(score / math.sqrt(2))


def as_leakpro(tests: list[Test]) -> str:
    """Return a result of LeakPro for every test, one on each line (`MIAResult.load` reads it)."""
    return "".join(f"{json.dumps(entry)}\n" for entry in _leakpro_entries(tests))


def _leakpro_entries(tests: list[Test]) -> Iterator[dict[str, Any]]:
    for test in tests:
        curve = Curve.of_scores(test.truth, test.scores)
        finding = test.finding
        yield {
            "result_name": finding.attack,
            "result_type": "MIAResult",
            "id": test.name.replace(" ", "-").replace(":", "-"),
            "tpr": curve.tpr.tolist(),
            "fpr": curve.fpr.tolist(),
            "roc_auc": test.auc,
            "accuracy": curve.accuracy.tolist(),
            "config": {"made_by": f"securefg {securefg.__version__}", "verdict": finding.verdict},
            "fixed_fpr": {f"TPR@{100 * rate:g}%FPR": curve.tpr_at(rate) for rate in FIXED},
            "signal_values": test.scores.tolist(),
            "true_labels": test.truth.tolist(),
            "tp": curve.tp.tolist(),
            "fp": curve.fp.tolist(),
            "tn": (curve.others - curve.fp).tolist(),
            "fn": (curve.members - curve.tp).tolist(),
        }


REPORTS: dict[str, Callable[[list[Test]], str]] = {"sacro": as_sacro, "leakpro": as_leakpro}
"""By the value of `--format`."""
