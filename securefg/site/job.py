"""A job as every party gets it: the run's config, what is public, and who holds which clients."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import DataError
from securefg.foundation.files import write_json
from securefg.foundation.streams import derive_seed
from securefg.methods.base import asked_at_once, population_of
from securefg.methods.registry import get_method
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.runs.choosing import settle_config
from securefg.settings.config import RunConfig, parse_config
from securefg.site.plan import RUN_NAME


@dataclass(frozen=True)
class Sizes:
    """What everybody may know of the data."""

    num_nodes: int
    num_features: int
    num_classes: int
    num_clients: int
    num_public: int = 0
    num_trainers: int | None = None
    node_holders: int | None = None
    edge_holders: int | None = None

    @classmethod
    def of(cls, public: PublicInfo) -> Sizes:
        """Return the sizes among public facts."""
        return cls(**{field.name: getattr(public, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class Job:
    """One submission of a run.

    submission   grows with every one of the same run: a site takes none twice
    sites        the hosts at each site, with their clients
    run_folder   where the server writes, if not below its own kit: a local federation's run
    has_truth    the server's process may load the whole dataset to score models, as one process
                 would: an experiment on one machine, never a deployment
    """

    run: str
    submission: int
    server: str
    config: dict[str, Any]
    sizes: Sizes
    sites: Mapping[str, Mapping[str, Clients]]
    run_folder: str = ""
    has_truth: bool = False
    digest: str = field(default="", compare=False)

    def parsed(self) -> RunConfig:
        """With what is left to a rule chosen: every party asks it with the job's own sizes."""
        config = parse_config(self.config)
        return settle_config(config, self._public_info(config.seed, torch.device("cpu")))

    @property
    def hosts(self) -> dict[str, Clients]:
        """Every host of the job with its clients, over all sites."""
        return {name: clients for own in self.sites.values() for name, clients in own.items()}

    def planned(self) -> list[PlannedRelease]:
        """The private fields that this job would send, from the method's own plan."""
        config = self.parsed()
        method = get_method(config.method.name)
        return method.releases(config.method, config.training, self.public(torch.device("cpu")))

    def policy(self) -> Policy:
        """Settled anew by every party from the config: nobody takes it from another."""
        config, total = self.parsed(), self.sizes.num_clients
        at_once = asked_at_once(total, config.training.participation)
        population = population_of(get_method(config.method.name), self.public(torch.device("cpu")))
        return make_policy(config.privacy, self.planned(), at_once, total, population)

    def public(self, device: torch.device) -> PublicInfo:
        """Return what everybody may know of the data, with the server's seed."""
        return self._public_info(parse_config(self.config).seed, device)

    def _public_info(self, seed: int, device: torch.device) -> PublicInfo:
        return PublicInfo(**vars(self.sizes), seed=derive_seed(seed, "server"), device=device)

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON has it."""
        sites = {
            site: {host: str(clients) for host, clients in hosts.items()}
            for site, hosts in self.sites.items()
        }
        return {
            "run": self.run,
            "submission": self.submission,
            "server": self.server,
            "sizes": vars(self.sizes),
            "sites": sites,
            "run_folder": self.run_folder,
            "has_truth": self.has_truth,
            "config": self.config,
        }

    def write(self, path: Path) -> None:
        """Write the job as a file that every party reads alike."""
        write_json(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> Job:
        """Return the job in a file, with the file's digest. Raise `DataError` for another file."""
        try:
            raw = path.read_bytes()
            data = json.loads(raw)
            data["sizes"] = Sizes(**data["sizes"])
            data["sites"] = {
                site: {host: Clients.parse(clients) for host, clients in hosts.items()}
                for site, hosts in data["sites"].items()
            }
            if not RUN_NAME.fullmatch(data["run"]):
                raise ValueError(f"run {data['run']!r:.60}: wanted letters, digits and _+.-")
            return cls(**data, digest=hashlib.sha256(raw).hexdigest())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: not a securefg job: {error}") from error


def spread_hosts(hosts: Mapping[str, Clients], sites: list[str]) -> dict[str, dict[str, Clients]]:
    """The hosts over the sites, in order and as evenly as can be; none is left without one."""
    names = list(hosts)
    used = sites[: len(names)]
    bounds = [len(names) * i // len(used) for i in range(len(used) + 1)]
    return {
        site: {name: hosts[name] for name in names[bounds[i] : bounds[i + 1]]}
        for i, site in enumerate(used)
    }
