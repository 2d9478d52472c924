"""The canary of a node, in all releases and over all its holders, against the node's epsilon.

Where a method proves how far one node moves its messages, noise is sized for that distance and not
for the clip. So a canary that moves every release by just that, as often as a node has holders,
goes through the run's channel; the claim is the one for all releases together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audits.mechanisms.effort import trials_for
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import MechanismResult
from securefg.privacy.accountants import claim
from securefg.privacy.influence import NOTHING
from securefg.privacy.ledger import Mechanism


def play_moved(messages: Sequence[AuditedMessage]) -> list[MechanismResult]:
    """One game over all messages; none where no rule is sized for a distance."""
    own = [m for m in messages if all(m.rule(r).moved_l2 is not None for r in m.claimed)]
    if not own or len(own) < len(messages):
        return []
    policy, hosts = own[0].policy, [message.host() for message in own]
    trials = min(trials_for(host, own[0].trials) for host in hosts)
    coins = (np.arange(trials) % 2 == 0).astype(np.float64)
    profile: dict[Mechanism, int] = {}
    fields: list[str] = []
    score, shift = np.zeros(trials), 0.0
    for message, host in zip(own, hosts, strict=True):
        for release in message.claimed:
            if release.influence(policy.unit) == NOTHING:
                continue
            (slot,) = message.slots_of(release, 1)
            seen, _ = host.emit({release.field: slot.canary(coins)}, host.enrol(trials), 1)
            found = slot.score(seen[release.field])
            # The likelihood ratio of Gaussians: weigh every release by what it shows.
            weight = _weight(found, coins)
            score, shift = score + weight * found, shift + weight
            fact = message.fact(release, host)
            profile[fact] = profile.get(fact, 0) + 1
            fields.append(release.name)
    if not fields:
        return []
    bound = own[0].bound(score, coins, shift)
    return [
        MechanismResult(
            field=", ".join(fields),
            check="moved",
            unit=policy.unit,
            rule=", ".join(sorted({m.rule(r).name for m in own for r in m.claimed})),
            rounds=1,
            planned=max(release.count for message in own for release in message.claimed),
            claimed=claim([profile], policy.unit, policy.delta).epsilon,
            gdp=bound.gdp,
            cp=bound.cp,
        )
    ]


def _weight(score: Floats, coins: Floats) -> float:
    """1 / variance, from the trials without a canary."""
    return 1 / max(float(score[coins == 0].var()), math.ulp(1.0))
