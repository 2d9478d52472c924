"""Building a host behind its channel, from a description that any process can be given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from securefg.data.shard import Shard
from securefg.engines.admission import Admission, RequestPlan
from securefg.engines.endpoint import Endpoint
from securefg.federation.channel import Channel
from securefg.federation.roles import Host, Site
from securefg.foundation.errors import MaskingRefused
from securefg.foundation.streams import derive_seed
from securefg.methods.registry import get_method
from securefg.privacy.ledger import Ledger, Release, read_ledger
from securefg.privacy.noise import NoiseSource, SeededNoise, SystemNoise
from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients
from securefg.secagg.committee.sealing import MemberKey
from securefg.secagg.forms import make_clients
from securefg.secagg.keys import load_identities
from securefg.secagg.masking_clients import MaskingClients
from securefg.settings.config import RunConfig


@dataclass(frozen=True)
class HostSpec:
    """A specification with everything a host needs but its data."""

    name: str
    clients: Clients
    num_clients: int
    config: RunConfig
    policy: Policy
    device: str
    ledger_path: Path
    attempt: int
    requests: RequestPlan
    identity_file: Path | None = None
    roster: tuple[bytes, ...] = ()
    memory_file: Path | None = None
    member_keys: tuple[MemberKey, ...] = ()


def build_endpoint(spec: HostSpec, shards: Sequence[Shard]) -> Endpoint:
    """Build a host behind its channel, with its memory and its books."""
    config, method = spec.config, get_method(spec.config.method.name)
    site = Site(
        shards=shards,
        method=config.method,
        training=config.training,
        seed=derive_seed(config.seed, "clients"),
        device=torch.device(spec.device),
        noise=noise_source(config),
    )
    before = _booked_before(spec)
    secure = _secure_clients(spec)
    ledger = Ledger(spec.num_clients)
    ledger.record(before)
    channel = Channel(spec.policy, noise_source(config), ledger, secure)
    host = method.make_host(site)
    if secure is not None and secure.malicious and not spec.policy.is_steering_covered:
        _refuse_state(host, method.name)
    endpoint = Endpoint(
        name=spec.name,
        clients=spec.clients,
        method=method,
        host=host,
        channel=channel,
        admission=Admission(method, config.method, spec.policy, spec.requests, before),
        attempt=spec.attempt,
        secure=secure,
    )
    require_memory(endpoint, before)
    return endpoint


def _secure_clients(spec: HostSpec) -> MaskingClients | None:
    settings = spec.config.privacy.secure_aggregation
    if settings is None or spec.identity_file is None:
        return None
    return make_clients(
        settings,
        spec.config.hash,
        load_identities(spec.identity_file, spec.clients),
        spec.roster,
        spec.member_keys,
        spec.identity_file.parent,
        spec.policy.least_survivors,
        spec.policy.cohorts,
        spec.memory_file,
        spec.policy.rounds,
    )


def _refuse_state(host: Host, method: str) -> None:
    """Raise MaskingRefused if a host keeps state under masks.

    A masked reply may depend on the request that its session is bound to, and on own data. Other
    clients need not have been sent the earlier requests that a client remembers.
    """
    kept = sorted(host.state())
    if kept:
        raise MaskingRefused(
            f"privacy.secure_aggregation.malicious: clients of {method} keep {', '.join(kept)} "
            "from round to round: a server that lies steers all uploads in a sum but one by what "
            "it told their senders before; allowed: malicious: false"
        )


def require_memory(endpoint: Endpoint, booked: Iterable[Release]) -> None:
    """Raise unless the clients remember every masked upload that their books tell of: a memory that
    was deleted or set back would let a round be summed again."""
    if endpoint.secure is None:
        return
    kinds = {message.__name__: message.kind for message in endpoint.method.every_message}
    own = set(endpoint.clients.numbers())
    for release in booked:
        sent = Clients.of(sorted(own & set(release.clients.numbers())))
        if release.mechanism.masked and len(sent):
            name = release.mechanism.field.partition(".")[0]
            endpoint.secure.memory.require(release.round, kinds[name], sent)


def noise_source(config: RunConfig) -> NoiseSource:
    """Return the source from which the hosts of a run draw their noise."""
    if config.privacy.noise_rng == "seeded":
        return SeededNoise(derive_seed(config.seed, "noise"))
    return SystemNoise()


def _booked_before(spec: HostSpec) -> list[Release]:
    """Return what this host's clients released before, so that its channel can refuse on its
    own."""
    own = set(spec.clients.numbers())
    return [r for r in read_ledger(spec.ledger_path) if own & set(r.clients.numbers())]
