"""Noise that two messages of a method share: each alone is sound, and one is taken off the other.

One host seals all messages of a round for the same clients, again and again. No number of one
message's noise may hang together with a number of another's, in value or in size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from audits.mechanisms.message import AuditedMessage
from audits.mechanisms.results import LawResult
from audits.noise_law import joint_tests
from audits.uploads import Host

CLIENTS, DRAWS = 4, 32
NUMBERS: Final = 1 << 19
"""Longer messages are cut short, to one row of a few numbers."""


def play_across(messages: Sequence[AuditedMessage]) -> list[LawResult]:
    """One result over all messages; none where a method has one alone."""
    if len(messages) < 2:
        return []
    first = messages[0]
    channel = first.make_channel(first.policy)
    hosts = [Host(m.policy, m.releases, channel, rows=None, alone=True) for m in messages]
    for host in hosts:
        if host.numbers_per_trial * CLIENTS * DRAWS > NUMBERS // len(hosts):
            host.rows = 1
    noises: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = {}
    for _ in range(DRAWS):
        for message, host in zip(messages, hosts, strict=True):
            seen, _own = host.emit({}, [(0, CLIENTS)], 1)
            for release in message.claimed:
                law = message.law(release, host)
                scores = law.normal_scores(seen[release.field] / law.sd)
                noises.setdefault(release.name, []).append(scores)
    parts = [np.concatenate(found) for found in noises.values()]
    return [
        LawResult(
            field=", ".join(noises),
            check="linked",
            unit=first.unit,
            rule=", ".join(sorted({m.rule(r).name for m in messages for r in m.claimed})),
            rounds=1,
            planned=max(r.count for m in messages for r in m.claimed),
            claimed=sum(
                m.epsilon([r], 1, m.unit, h)
                for m, h in zip(messages, hosts, strict=True)
                for r in m.claimed
            ),
            tests=tuple(joint_tests(parts)),
            numbers=sum(part.size for part in parts),
            level=first.level,
        )
    ]
