"""Training alone, at its best: every client chooses among several methods by its own validation.

This is the level that a common model must pass. A client takes the first candidate, unless another
is clearly better on its own validation nodes: of n nodes on which exactly one of the two is right,
the other is right on n/2 + sqrt(n) or more (McNemar). A handful of nodes would else choose by luck,
which makes training alone look worse than it is.
"""

from __future__ import annotations

from securefg.federation.evaluation import LocalScore, score_locally
from securefg.federation.roles import Host, Site
from securefg.foundation.errors import ConfigError
from securefg.methods.alone.algorithm import Clock, Done, Go, plan_releases
from securefg.methods.at_home import choose_clearly, hits_of
from securefg.methods.base import Method
from securefg.methods.best_alone.candidates import CANDIDATES
from securefg.methods.best_alone.settings import Settings
from securefg.methods.two_sums.features import refuse_samples, with_divisor
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message


class Party(Host):
    """A party with its own model."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._site = site
        refuse_samples(self._shard.graph)
        wanted = site.method.candidates or tuple(CANDIDATES)
        unknown = sorted(set(wanted) - set(CANDIDATES))
        if unknown:
            raise ConfigError(
                f"method.candidates: found {unknown[0]}; expected some of {', '.join(CANDIDATES)}"
            )
        self._wanted = wanted

    def handle(self, request: Message, turn: Turn) -> Message:
        """Answer that there is nothing to do."""
        assert isinstance(request, Go)
        return Done(number=request.number)

    def measure(self, release: Message) -> list[LocalScore]:
        """Train all candidates, choose one, and score it on the own nodes."""
        graph = self._shard.graph
        logits = [CANDIDATES[name](graph, self._site) for name in self._wanted]
        chosen = logits[choose_clearly([hits_of(graph, one) for one in logits])]
        return [score_locally(self._shard.client, chosen, graph.labels, graph.split)]


METHOD = Method(
    name="best_alone",
    summary="every client trains alone by the best of several methods; nothing is sent",
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
