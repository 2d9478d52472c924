"""The fewest organisations in a sum: one organisation may run several clients of a federation."""

from __future__ import annotations

from collections.abc import Mapping

from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients
from securefg.settings.secagg import SecureAggregationSettings, Threat


def clients_by_organisation(sites: Mapping[str, Mapping[str, Clients]]) -> dict[str, int]:
    """Return how many clients each site of a job has."""
    return {site: sum(map(len, hosts.values())) for site, hosts in sites.items()}


def fewest_organisations(num_clients: int, organisations: Mapping[str, int]) -> int:
    """Return the least number of organisations that together have so many clients."""
    left = num_clients
    for count, size in enumerate(sorted(organisations.values(), reverse=True), 1):
        left -= size
        if left <= 0:
            return count
    return len(organisations)


def smallest_sum(settings: SecureAggregationSettings, policy: Policy, threat: Threat) -> int:
    """Return the least number of clients over which a sum of this job can be opened."""
    planned = [threat.least_cohort(cohort) for cohort in policy.cohorts.values()]
    return max(settings.min_clients, min(planned, default=0))


def largest_dropout(policy: Policy, threat: Threat) -> float:
    """Return the largest share of a cohort that may fall silent, rules for small ones included."""
    cohorts = [*policy.cohorts.values()] or [threat.population or 1]
    return max(threat.num_dropped(cohort) / cohort for cohort in cohorts)
