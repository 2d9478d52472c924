"""Reports of membership in the formats of SACRO-ML and LeakPro."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import auc
from typer.testing import CliRunner

from audits.membership_reports import Curve, read_tests
from audits.metrics import area_under_curve
from audits.plan import Plan
from audits.run import audit
from securefg.cli.main import app
from securefg.foundation.errors import ConfigError
from tests.unit.audits.foreign_networks import HERE, Convolutions, draw_digits, write_record

OF_LEAKPRO = {
    "result_name": str,
    "result_type": str,
    "id": str,
    "tpr": list,
    "fpr": list,
    "roc_auc": float,
    "accuracy": list,
    "fixed_fpr": dict,
    "signal_values": list,
    "true_labels": list,
    "config": dict,
    "tp": list,
    "fp": list,
    "tn": list,
    "fn": list,
}
"""The fields of LeakPro's MIAResultSchema, and their types."""
OF_SACRO = {
    *("AUC", "P_HIGHER_AUC", "ACC", "Advantage", "FDIF01", "PDIF01"),
    *("TPR@0.1", "TPR@0.01", "TPR@0.001", "TPR@1e-05"),
    *("TPR@0.1%", "TPR@0.01%", "TPR@0.001%", "TPR@1e-05%"),
}
"""The metrics of every instance that the reports of SACRO-ML 1 and 2 read."""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("reports") / "x"
    write_record(path, Convolutions(), draw_digits(2, 60))
    return path


def printed(record: Path, form: str, only: str = "network_members") -> str:
    words = ["--network", f"{HERE}:Convolutions", "--only", only, "--format", form]
    done = CliRunner().invoke(app, ["audit", str(record), *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_sacro_report_has_the_metrics_that_its_formatter_reads(record: Path) -> None:
    report = json.loads(printed(record, "sacro"))
    (entry,) = report.values()
    assert entry["metadata"]["attack_name"] == "network_members server"
    (metrics,) = entry["attack_experiment_logger"]["attack_instance_logger"].values()
    assert metrics.keys() >= OF_SACRO
    assert metrics["AUC"] > 0.7
    assert metrics["P_HIGHER_AUC"] < 0.01
    assert metrics["TPR@0.1"] == metrics["TPR@10%"] >= metrics["TPR@0.1%"]
    assert (metrics["fpr"][0], metrics["tpr"][0]) == (0, 0)
    assert metrics["n_pos_test_examples"] == metrics["n_neg_test_examples"]


def test_leakpro_result_has_the_fields_of_its_schema(record: Path) -> None:
    (line,) = printed(record, "leakpro").splitlines()
    result = json.loads(line)
    assert {name: type(value) for name, value in result.items()} == OF_LEAKPRO
    assert auc([0, *result["fpr"]], [0, *result["tpr"]]) == pytest.approx(result["roc_auc"])
    assert result["fixed_fpr"].keys() == {
        "TPR@0%FPR",
        "TPR@0.01%FPR",
        "TPR@0.1%FPR",
        "TPR@1%FPR",
        "TPR@10%FPR",
    }


def test_curve_counts_tied_scores_once() -> None:
    truth, scores = np.array([1, 0, 1, 0]), np.array([2.0, 1.0, 1.0, 0.0])
    curve = Curve.of_scores(truth, scores)
    assert curve.tp.tolist() == [1, 2, 2]
    assert curve.fp.tolist() == [0, 1, 2]
    assert curve.tpr_at(0.0) == 0.5
    assert auc([0, *curve.fpr], [0, *curve.tpr]) == area_under_curve(truth, scores)


def test_report_without_a_test_of_membership_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    write_record(tmp_path / "x", Convolutions(), draw_digits(2, 20))
    found = audit(tmp_path / "x", Plan(only=("promises",))).findings
    with pytest.raises(ConfigError, match="found no test of membership"):
        read_tests(tmp_path / "x", found)
