"""A model that is no better than always naming one class is called useless."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.federation.quality import ClassScore, Quality
from securefg.runs.scores import explain_useless
from tests.small import config
from tests.unit.papers.made_summary import made_summary

CLASSES = tuple(ClassScore(count=n, recall=None, precision=None, f1=0.0) for n in (60, 40))


@pytest.mark.parametrize(
    ("monitor", "accuracy", "balanced", "is_useless"),
    [
        ("either", 0.61, 0.5, False),
        ("either", 0.60, 0.9, True),
        ("either", 0.40, 0.9, True),
        ("val_balanced_accuracy", 0.9, 0.5, True),
        ("val_balanced_accuracy", 0.1, 0.51, False),
    ],
)
def test_explain_useless_goes_by_the_monitored_score(
    monitor: str, accuracy: float, balanced: float, is_useless: bool
) -> None:
    scores = Quality(balanced_accuracy=balanced, macro_f1=0.5, majority=0.6, per_class=CLASSES)
    summary = made_summary(0.5, accuracy).model_copy(update={"test_scores": scores})
    told = explain_useless(config(Path("r"), f"training.monitor={monitor}"), summary)
    assert bool(told) is is_useless
    assert told == "" or told.startswith("NO BETTER THAN ONE CLASS: ")


def test_explain_useless_without_scores_is_silent() -> None:
    assert explain_useless(config(Path("r")), made_summary(0.1, 0.1)) == ""
