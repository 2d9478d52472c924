"""What accuracy hides where fraud is rare: average precision of a run's model on its test nodes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from sklearn.metrics import average_precision_score

from audits.truth import Truth
from securefg.run.folder import RunFolder


def measured(path: Path, positive: int = 1) -> dict[str, float]:
    """Of the released model on the union of what the banks hold, beside what "never" reaches."""
    truth = Truth.of(RunFolder.open(path))
    graph, test = truth.graph, truth.graph.split.test
    assert truth.answers is not None, "the run released no model that answers for nodes"
    scores = torch.softmax(truth.answers.double(), 1)[test, positive]
    fraud = graph.labels[test] == positive
    right = truth.answers[test].argmax(1) == graph.labels[test]
    return {
        "average precision": float(average_precision_score(fraud, scores)),
        "its floor": float(fraud.double().mean()),
        "accuracy": float(right.double().mean()),
        '"never fraud"': float((~fraud).double().mean()),
    }


def main(paths: list[str]) -> None:
    for path in paths:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in measured(Path(path)).items())
        print(f"{Path(path).name}: {figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
