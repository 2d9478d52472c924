"""Every client solves from its own sums, as `two_sums` does from all: nothing is exchanged.

The baseline of training alone, with the same features, head and care: its own class scores, and the
ridge that its own validation nodes favour.
"""

from __future__ import annotations

from typing import Final

from securefg.federation.evaluation import LocalScore
from securefg.federation.roles import Host, Site
from securefg.methods.alone.algorithm import Clock, Done, Go, plan_releases
from securefg.methods.base import Method
from securefg.methods.own_sums.settings import Settings
from securefg.methods.two_sums.algorithm import best_of
from securefg.methods.two_sums.features import (
    CONSTANT,
    class_sums,
    feature_length,
    moments_of,
    refuse_samples,
    rows_of,
    with_divisor,
)
from securefg.models.discriminant import class_scores, solve_discriminant
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message

RIDGES: Final = (1.0, 0.1, 10.0, 100.0)


class Party(Host):
    """A party with its own model. There is nothing to keep."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings = site.method
        refuse_samples(self._shard.graph)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer that there is nothing to do."""
        assert isinstance(request, Go)
        return Done(number=request.number)

    def measure(self, release: Message) -> list[LocalScore]:
        """Solve from the own sums, and score on the own nodes."""
        graph, projection = self._shard.graph, None
        if graph.num_features > self._settings.narrow:
            projection = class_scores(class_sums(graph), 0.0, self._settings.encoding == "rates")
        rows = rows_of(graph, projection, self._settings)
        own = moments_of(graph, rows)
        solved = (
            solve_discriminant(own, CONSTANT / feature_length(), 0.0, ridge) for ridge in RIDGES
        )
        return [best_of(self._shard, [rows @ weights + offsets for weights, offsets in solved])]


METHOD = Method(
    name="own_sums",
    summary="every client solves from its own sums, as two_sums does from all; nothing is sent",
    settings=Settings,
    messages=(Go, Done),
    replies={Go: Done},
    release=Go,
    planned=plan_releases,
    make_host=Party,
    make_server=Clock,
    answers_shown=lambda settings: False,
    choose=with_divisor,
)
