"""A site's score of a model on its own nodes: shares in whole hundredths, once a round.

Never the training loss: differences of it between models that a server crafts are the gradient.
Losses and shares are rounded so that small changes of a model do not show. Of two classes a site
tells average precision too, in steps that hide a single node (`share_precision`).
"""

from __future__ import annotations

import math
from typing import Any

from securefg.federation.alerts import share_precision
from securefg.federation.evaluation import LocalScore
from securefg.federation.quality import Confusion, Ranks
from securefg.foundation.errors import ProtocolError
from securefg.protocol.codec import Clients

DIGITS = 2


def rounded_score(score: LocalScore) -> dict[str, Any]:
    """Return the part of a score that may leave, in whole hundredths."""
    return {
        "client": score.client,
        "val_loss": round(score.val_loss, DIGITS) if math.isfinite(score.val_loss) else 0.0,
        "val_correct": _round_correct(score.val_correct, score.val_count),
        "val_count": score.val_count,
        "test_correct": _round_correct(score.test_correct, score.test_count),
        "test_count": score.test_count,
        "val_precision": _shared_precision(score.val_ranks, score.val_confusion),
        "test_precision": _shared_precision(score.test_ranks, score.test_confusion),
    }


def _shared_precision(ranks: Ranks | None, confusion: Confusion | None) -> float | None:
    """Return the average precision of the second of two classes as it may leave."""
    if ranks is None or confusion is None or len(confusion) != 2:
        return None
    negatives, positives = (sum(row) for row in confusion)
    return share_precision(ranks[1], positives, negatives)


def _round_correct(correct: int, count: int) -> int:
    return round(round(correct / count, DIGITS) * count) if count else 0


def read_score(data: Any, clients: Clients, num_nodes: int) -> LocalScore:
    """Return a site's score. Raise where it cannot be of one of this host's clients."""
    counts = {"client", "val_correct", "val_count", "test_correct", "test_count"}
    shares = {"val_precision", "test_precision"}
    if not isinstance(data, dict) or set(data) != {"val_loss", *counts, *shares}:
        raise ProtocolError("not a score")
    for name in shares:
        if data[name] is not None and not (type(data[name]) is float and 0 <= data[name] <= 1):
            raise ProtocolError(f"an average precision of {data[name]!r:.30}")
    loss = data["val_loss"]
    if type(loss) is not float or not math.isfinite(loss) or loss < 0:
        raise ProtocolError(f"a validation loss of {loss!r:.30}")
    if any(type(data[name]) is not int for name in counts):
        raise ProtocolError("a score with counts that are no whole numbers")
    if not Clients(((data["client"], data["client"] + 1),)).within(clients):
        raise ProtocolError(f"a score of client {data['client']}, who is not there")
    for part in ("val", "test"):
        if not 0 <= data[f"{part}_correct"] <= data[f"{part}_count"] <= num_nodes:
            raise ProtocolError(f"{data[f'{part}_correct']} right of {data[f'{part}_count']}")
    return LocalScore(train_loss=0.0, train_count=0, **data)
