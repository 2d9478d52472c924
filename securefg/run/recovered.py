"""What algebra alone recovers from a run's masked sums, drop-outs included.

One session sums each upload once, so a contribution is exposed where a single client survived; a
node's row where a single survivor holds the node and the sum was released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Record
from securefg.run.assembly import Experiment
from securefg.secagg.exposure import node_exposure, session_exposure


def recovered_by_algebra(
    experiment: Experiment, records: Iterable[Record]
) -> dict[str, Any] | None:
    """For the summary of a masked run; None where nothing was masked."""
    settings = experiment.config.privacy.secure_aggregation
    if settings is None:
        return None
    sessions = Counter(record.clients for record in records if record.sender == "sum")
    total = experiment.partition.num_clients
    contributions, rows = 0, 0 if experiment.has_truth else None
    for text, count in sessions.items():
        survivors = Clients.parse(text).numbers()
        contributions += count * _uploads(experiment, survivors)
        if rows is not None and _has_node_sums(experiment):
            gone = set(range(total)) - set(survivors)
            holders = [nodes.numpy() for nodes in experiment.partition.clients]
            exposed = node_exposure(
                holders, experiment.public.num_nodes, gone, settings.min_holders
            ).exposed
            rows += count * int(exposed.sum())
    return {
        "sessions": sum(sessions.values()),
        "smallest_cohort": min((len(Clients.parse(text)) for text in sessions), default=0),
        "contributions_recoverable": contributions,
        "node_rows_recoverable": rows,
    }


def _uploads(experiment: Experiment, survivors: list[int]) -> int:
    """How many uploads follow from one session's sum, whatever shape the method gave it."""
    method, total = experiment.method, experiment.partition.num_clients
    if method.exposed_uploads is not None:
        return method.exposed_uploads(experiment.config.method, experiment.public, survivors)
    return int(session_exposure([survivors], total).exposed.sum())


def _has_node_sums(experiment: Experiment) -> bool:
    planned = experiment.method.planned(
        experiment.config.method, experiment.config.training, experiment.public
    )
    masked = experiment.policy.masked
    return any(release.declaration.rows and release.name in masked for release in planned)
