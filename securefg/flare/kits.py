"""Provisioning: a kit for every party, with certificates by NVIDIA FLARE and what securefg adds.

<folder>/federation_plan.json      the plan from which every job is made
<folder>/submissions.json          the jobs that were submitted
<folder>/<party>/startup/          certificates by FLARE, and addresses
<folder>/<party>/local/            FLARE's settings (`guard/settings.py`), stricter than its own:
                                   only our two classes may be loaded, and no logs are streamed
<folder>/<party>/local/securefg/   roster.json; at a site, site.json: where its home is
<folder>/<site>/securefg/          a site's home, where it is not elsewhere
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from securefg.flare.admin import ADMIN, require_flare
from securefg.flare.enrolment import Request
from securefg.flare.guard.settings import PROJECT, SERVER_NAME, SITE_NAME, settings_of
from securefg.foundation.errors import ConfigError, DataError
from securefg.foundation.files import write_atomically, write_json
from securefg.foundation.json_text import read_json
from securefg.protocol.codec import Clients
from securefg.site.books import open_books
from securefg.site.certificates import Root, Signer
from securefg.site.job import Job, Sizes
from securefg.site.plan import PLAN_FILE, plan_path, read_plan
from securefg.site.policy import POLICY_FILE, SitePolicy, write_policy
from securefg.site.roster import Entry, enrol_site, read_roster, write_roster
from securefg.site.taking_up import SiteKit

SUBMISSIONS = "submissions.json"


@dataclass(frozen=True)
class Plan:
    """Who takes part.

    server  the name by which the sites reach it
    sites   the hosts that each site runs, with their clients
    homes   where a site keeps its own, if not in its kit
    policy  the floor that a site's kit comes with: the site's owner changes it, nobody else
    requests  of parties that made their own keys
    """

    server: str
    port: int
    sites: Mapping[str, Mapping[str, Clients]]
    homes: Mapping[str, Path] = field(default_factory=dict)
    policy: SitePolicy = field(default_factory=SitePolicy)
    requests: Mapping[str, Request] = field(default_factory=dict)


@dataclass(frozen=True)
class Kits:
    """A provisioned federation by its folder."""

    path: Path

    @property
    def server(self) -> Path:
        """The server's kit."""
        name = read_json(self.path / "federation.json")["server"]
        return self.path / str(name)

    @property
    def admin(self) -> Path:
        """The administrator's kit."""
        return self.path / ADMIN

    def site(self, name: str) -> Path:
        """Return a site's kit."""
        return self.path / name

    def home(self, name: str) -> Path:
        """Return where a site keeps its own files."""
        return home_of(self.site(name))


def home_of(kit: Path) -> Path:
    """Return a site's home by its kit."""
    own = kit / "local" / "securefg"
    try:
        return Path(own / read_json(own / "site.json")["home"]).resolve()
    except OSError as error:
        raise DataError(f"{kit}: not a site's kit (it has no local/securefg/site.json)") from error


def load_site_kit(kit: Path) -> SiteKit:
    """Return what a site was given: certificates in `startup`, the rest in `local`."""
    signer = Signer.load(kit / "startup")
    facts = read_json(kit / "startup" / "fed_client.json")
    return SiteKit(
        name=signer.name,
        server=facts["servers"][0]["identity"],
        signer=signer,
        root=Root.load(kit / "startup"),
        home=home_of(kit),
        roster=kit / "local" / "securefg" / "roster.json",
        plan=read_plan(kit),
    )


def provision_kits(folder: Path, plan: Plan) -> Kits:
    """Make all kits anew: without keys for parties that sent a request, they have theirs."""
    if folder.exists():
        raise ConfigError(f"{folder} exists; wanted a new folder for the kits")
    for site, hosts in plan.sites.items():
        count, request = sum(map(len, hosts.values())), plan.requests.get(site)
        if request is not None and len(request.masking_keys) != count:
            raise ConfigError(
                f"--request: {site} sent {len(request.masking_keys)} masking keys; it has {count} "
                f"clients: `securefg deploy request {site} --clients {count}`"
            )
    made = _by_flare(folder.with_name(f".{folder.name}.provisioning"), plan)
    shutil.move(made / "prod_00", folder)
    folder.chmod(0o700)
    shutil.rmtree(made.parent)
    kits = Kits(folder)
    write_json(folder / "federation.json", {"server": plan.server, "port": plan.port})
    _own_alone(kits.admin)
    for path in (kits.admin / "startup").iterdir():
        if path.suffix in (".sh", ".ipynb", ".txt"):  # they would start FLARE without the guard
            path.unlink()
    # Where the server will lie is not known here; its start writes it down.
    own_settings = settings_of(True, plan.server, plan.server, plan.port, Path(os.devnull))
    _tighten_kit(folder / plan.server, own_settings)
    entries = []
    for site, hosts in plan.sites.items():
        kit = folder / site
        _tighten_kit(kit, settings_of(False, site, plan.server, plan.port, kit))
        home = plan.homes.get(site, kit / "securefg")
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        home.chmod(0o700)
        open_books(home)
        write_policy(home / POLICY_FILE, plan.policy)
        own = kit / "local" / "securefg"
        write_json(own / "site.json", {"home": os.path.relpath(home, own)})
        entries.append(_roster_entry(kit, home, site, hosts, plan.requests.get(site)))
    for party in (plan.server, *plan.sites):
        path = folder / party / "local" / "securefg" / "roster.json"
        write_roster(path, entries)
        read_roster(path, Root.load(folder / party / "startup"), plan.sites)
    return kits


def _roster_entry(
    kit: Path, home: Path, site: str, hosts: Mapping[str, Clients], request: Request | None
) -> Entry:
    """The site's line in the roster: its own word, or in a rehearsal that of keys made here."""
    if request is None:
        return enrol_site(Signer.load(kit / "startup"), home / "keys", hosts)
    clients = Clients.of([n for own in hosts.values() for n in own.numbers()])
    certificate = (kit / "startup" / "client.crt").read_bytes()
    return Entry(site, clients, request.masking_keys, certificate, request.signature)


def _by_flare(workspace: Path, plan: Plan) -> Path:
    require_flare()
    from nvflare.lighter.entity import Project
    from nvflare.lighter.impl.signature import SignatureBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    from securefg.flare.signing import SigningBuilder

    shutil.rmtree(workspace, ignore_errors=True)
    try:
        if not SERVER_NAME.fullmatch(plan.server):
            raise ValueError(f"{plan.server!r}: wanted letters, digits, - and .")
        project = Project(PROJECT, "", props={"api_version": 3})
        ports = {"fed_learn_port": plan.port, "admin_port": plan.port}
        project.set_server(plan.server, "server", ports)
        for site in plan.sites:
            if not SITE_NAME.fullmatch(site) or site == "server":
                raise ValueError(f"{site!r}: wanted letters, digits, - and _, and not `server`")
            project.add_client(site, re.sub(r"\W", "_", site), {})
        project.add_admin(ADMIN, "server", {"role": "project_admin"})
    except ValueError as error:
        raise ConfigError(f"--site, --server: {error}") from error
    builders = [
        WorkspaceBuilder(["master_template.yml"]),
        StaticFileBuilder(config_folder="config", scheme="tcp", require_signed_jobs=True),
        SigningBuilder({name: request.public for name, request in plan.requests.items()}),
        SignatureBuilder(),
    ]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        Provisioner(str(workspace), builders).provision(project)
    return workspace / PROJECT


def _tighten_kit(kit: Path, settings: Mapping[str, bytes]) -> None:
    """Of what FLARE made, certificates and keys stay; its scripts would start it without the guard.

    What it reads is made by `guard/settings.py`, and compared at every start.
    """
    kept = {"startup/rootCA.pem"} | {
        f"startup/{stem}.{kind}" for stem in ("client", "server") for kind in ("crt", "key")
    }
    for path in sorted(kit.rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(kit).as_posix() not in kept:
            path.unlink()
    for name, content in settings.items():
        write_atomically(kit / name, content)
    _own_alone(kit)


def _own_alone(kit: Path) -> None:
    for key in (kit / "startup").glob("*.key"):
        key.chmod(0o600)
    kit.chmod(0o700)


@dataclass(frozen=True)
class FederationPlan:
    """The run's config, what is public of the data, and which hosts each site runs."""

    run: str
    server: str
    config: dict[str, Any]
    sizes: Sizes
    sites: Mapping[str, Mapping[str, Clients]]

    def job(self, submission: int) -> Job:
        """Return the job of one submission of the plan."""
        return Job(self.run, submission, self.server, self.config, self.sizes, self.sites)

    def write(self, kits: Path) -> None:
        """Write the plan beside the kits, as a job with the number 0."""
        self.job(0).write(kits / PLAN_FILE)

    @classmethod
    def read(cls, kits: Path) -> FederationPlan:
        """Return the plan beside the kits. Raise `DataError` where there is none."""
        if not (kits / PLAN_FILE).exists():
            raise DataError(f"{kits}: no kits of `securefg deploy provision` (no {PLAN_FILE})")
        job = Job.read(kits / PLAN_FILE)
        return cls(job.run, job.server, job.config, job.sizes, job.sites)


def hand_out_plan(kits: Kits, job: Job) -> None:
    """Give every party the plan: a job that is not the same is refused there."""
    for party in (job.server, *job.sites):
        job.write(plan_path(kits.path / party))


@dataclass(frozen=True)
class Submissions:
    """The jobs that were submitted from these kits, FLARE's id by number."""

    path: Path

    def all(self) -> dict[int, str]:
        """Return FLARE's id of every submission, by number."""
        if not self.path.exists():
            return {}
        return {int(k): str(v) for k, v in read_json(self.path).items()}

    def next_number(self) -> int:
        """Return the number of the next submission."""
        return max(self.all(), default=0) + 1

    def add(self, number: int, job_id: str) -> None:
        """Note a submission."""
        write_json(self.path, {**self.all(), number: job_id})

    @property
    def last(self) -> str:
        """FLARE's id of the last submission. Raise `DataError` where there was none."""
        found = self.all()
        if not found:
            raise DataError(f"{self.path.parent}: nothing was submitted; `securefg deploy submit`")
        return found[max(found)]
