"""A federation without FLARE: real kits, sites and server over a transport that tests can break."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import yaml

from securefg.data.shard import save_shards
from securefg.flare import coordinator
from securefg.flare.kits import Kits, Plan, hand_out_plan, load_site_kit, provision_kits
from securefg.flare.server_run import ServerKit, ServerRun
from securefg.foundation.errors import SecurefgError
from securefg.runs.assembly import Experiment, hosts_of, prepare
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig
from securefg.site.job import Job, Sizes, spread_hosts
from securefg.site.packets import Packet
from securefg.site.policy import POLICY_FILE, SitePolicy
from securefg.site.run import SiteRun
from securefg.site.taking_up import SiteKit

pytest.importorskip("nvflare")
SITES = ("site-1", "site-2", "site-3", "site-4")
Deliver = Callable[[str, Packet], Packet | None]


@cache
def certificates() -> Path:
    """One set of kits for all tests: keys take a while to make."""
    from securefg.protocol.codec import Clients

    folder = Path(mkdtemp(prefix="securefg-kits-")) / "kits"
    sites = {site: {f"none-{i}": Clients(((i, i + 1),))} for i, site in enumerate(SITES)}
    everything = SitePolicy.everything_goes()
    return provision_kits(folder, Plan("localhost", 1, sites, policy=everything)).path


class World:
    """A run over the sites of `folder`. `between` may replace what the transport does."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder, self.config = folder, config
        self.experiment: Experiment = prepare(config)
        self.kits = Kits(folder / "kits")
        self.submission = 0
        self.between: Callable[[str, Packet, Deliver], Packet | None] = (
            lambda site, packet, deliver: deliver(site, packet)
        )
        self.alive: Callable[[str], bool] = lambda site: True
        self.refusals: list[tuple[str, str]] = []
        self.sites: dict[str, SiteRun] = {}
        self._deal_out()

    def _deal_out(self) -> None:
        from securefg.site.certificates import Signer
        from securefg.site.roster import enrol_site, write_roster

        shutil.copytree(certificates(), self.kits.path)
        self.assignment = spread_hosts(hosts_of(self.experiment), list(SITES))
        entries = []
        for site, hosts in self.assignment.items():
            home = self.kits.home(site)
            shutil.rmtree(home / "keys", ignore_errors=True)
            signer = Signer.load(self.kits.site(site) / "startup")
            entries.append(enrol_site(signer, home / "keys", hosts))
            for name, clients in hosts.items():
                own = tuple(self.experiment.shards[n] for n in clients.numbers())
                save_shards(home / "shards" / f"{name}.safetensors", own)
        for party in ("localhost", *self.assignment):
            write_roster(self.roster(party), entries)
        self.entitled = self.roster("localhost").with_name(coordinator.FILE)
        coordinator.write_entitled(self.entitled, self.experiment.method, self.experiment.public)

    def roster(self, party: str) -> Path:
        return self.kits.path / party / "local" / "securefg" / "roster.json"

    def policy(self, site: str, text: str) -> None:
        """A site's floor: everything goes but what the text says."""
        open_wide = SitePolicy.everything_goes().model_dump(mode="json")
        written = {**open_wide, **yaml.safe_load(text)}
        (self.kits.home(site) / POLICY_FILE).write_text(yaml.safe_dump(written))

    def job(self, **changes: Any) -> Job:
        """A new submission, as every party would read it from its file."""
        self.submission += 1
        job = Job(
            run=f"{self.config.name}-s{self.config.seed}-{self.config.hash}",
            submission=self.submission,
            server="localhost",
            config=self.config.model_dump(mode="json"),
            sizes=Sizes.of(self.experiment.public),
            sites=self.assignment,
            has_truth=True,
        )
        planned = dataclasses.replace(job, **changes)
        hand_out_plan(self.kits, planned)
        path = self.folder / "job.json"
        planned.write(path)
        return Job.read(path)

    def start(self, job: Job, job_id: str = "job") -> ServerRun:
        """New processes, as it were, at every party."""
        self.sites = {site: SiteRun(self.site_kit(site), job, job_id) for site in self.assignment}
        server = ServerKit.load(self.kits.server)
        return ServerRun(server, job, job_id, self._send, lambda site, _: self.alive(site))

    def run(self, job: Job | None = None, job_id: str = "job") -> RunFolder:
        """Run to the end; raises what ended it."""
        path, error = self.start(job or self.job(), job_id).execute()
        if error is not None:
            raise error
        return RunFolder(path)

    def site_kit(self, site: str) -> SiteKit:
        return load_site_kit(self.kits.site(site))

    def _send(self, site: str, packet: Packet, timeout: float) -> Packet | None:
        return self.between(site, packet, self.hand_over)

    def hand_over(self, site: str, packet: Packet) -> Packet | None:
        """As the executor does: what is refused gets no answer."""
        try:
            return self.sites[site].handle(packet)
        except SecurefgError as error:
            self.refusals.append((site, str(error)))
            return None

    def booked(self, site: str) -> list[dict[str, Any]]:
        """The lines of a site's ledger, one per request that a host saw."""
        path = self.kits.home(site) / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def left(self, site: str) -> list[str]:
        """What private left a site, one by one."""
        return [
            json.dumps({"run": line["run"], "release": release})
            for line in self.booked(site)
            for release in line["releases"]
        ]

    def noted(self, site: str) -> list[dict[str, Any]]:
        """What a site wrote down of requests that it refused or failed on."""
        path = self.kits.home(site) / "refusals.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
