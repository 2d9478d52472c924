"""What a site keeps for itself about the released model: exact scores and alerts, never sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from securefg.federation.alerts import AlertScore
from securefg.federation.evaluation import LocalScore
from securefg.foundation.errors import DataError
from securefg.foundation.files import PRIVATE, write_atomically
from securefg.foundation.json_text import read_json

FILE = "own_scores.json"


@dataclass(frozen=True)
class OwnScore:
    """A model on one client's own test nodes, in the site's kit alone.

    first      precision and recall of as many alerts as `training.alerts` says
    threshold  of all nodes above the threshold that is best on the client's validation nodes
    """

    client: int
    accuracy: float | None
    always_one_class: float | None
    average_precision: float | None
    positives: int | None
    first: AlertScore | None
    threshold: AlertScore | None

    @property
    def lines(self) -> list[str]:
        """Return the scores in words."""
        shown = (
            ("accuracy", self.accuracy),
            ("always one class", self.always_one_class),
            ("average precision", self.average_precision),
        )
        found = [f"{name} {value:.3f}" for name, value in shown if value is not None]
        lines = [f"client {self.client}: {', '.join(found) or 'no test nodes'}"]
        for kind, alerts in (("first", self.first), ("above the threshold", self.threshold)):
            if alerts is not None:
                lines.append(
                    f"  {alerts.alerts} alerts ({kind}): precision {_share(alerts.precision)}, "
                    f"recall {_share(alerts.recall)} of {self.positives}"
                )
        return lines


def own_score(score: LocalScore, alerts: int | None) -> OwnScore:
    """Return what a site keeps of a client's score."""
    counts, confusion = score.alerts, score.test_confusion
    most = max(map(sum, confusion), default=0) if confusion else None
    return OwnScore(
        client=score.client,
        accuracy=score.test_accuracy,
        always_one_class=most / score.test_count if most is not None and score.test_count else None,
        average_precision=None if score.test_ranks is None else score.test_ranks[1],
        positives=None if counts is None else counts.positives,
        first=None if counts is None or alerts is None else counts.at(alerts),
        threshold=None if counts is None else counts.above_threshold,
    )


def write_own_scores(folder: Path, scores: Sequence[OwnScore]) -> None:
    """Write the scores, readable by the site's owner alone."""
    rows = [
        {
            name: value.model_dump() if isinstance(value, AlertScore) else value
            for name, value in vars(score).items()
        }
        for score in scores
    ]
    write_atomically(folder / FILE, json.dumps(rows).encode(), mode=PRIVATE)


def has_own_scores(folder: Path) -> bool:
    """Return whether a run's scores are kept already."""
    return (folder / FILE).exists()


def read_own_scores(folder: Path) -> list[OwnScore]:
    """Read what `write_own_scores` wrote. Raise `DataError` for anything else."""
    path = folder / FILE
    try:
        rows = read_json(path)
        return [OwnScore(**{**row, **_parse_row(row)}) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: no scores of this site can be read") from error


def _parse_row(row: dict[str, object]) -> dict[str, AlertScore | None]:
    return {
        name: None if row[name] is None else AlertScore.model_validate(row[name])
        for name in ("first", "threshold")
    }


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
