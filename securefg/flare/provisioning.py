"""From a config to kits that can be handed out, and what a site does with its own kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from securefg.data.datasets import load
from securefg.data.shard import Shard, save_shards
from securefg.flare import coordinator, runbook
from securefg.flare.enrolment import Request, install
from securefg.flare.kits import FederationPlan, Kits, Plan, hand_out_plan, home_of, provision
from securefg.foundation.errors import ConfigError, DataError, PrivacyError
from securefg.foundation.files import write_atomically
from securefg.foundation.json_text import read_json
from securefg.methods.registry import get_method
from securefg.protocol.codec import Clients
from securefg.run.assembly import hosts_of, prepare
from securefg.settings.config import RunConfig
from securefg.settings.data import DataSettings, SplitSettings
from securefg.site.books import SiteBooks
from securefg.site.job import Job, Sizes, spread
from securefg.site.plan import plan_path
from securefg.site.policy import POLICY_FILE, SitePolicy, load_policy, planned_profile


def dealt_out(
    out: Path,
    config: RunConfig,
    server: str,
    port: int,
    sites: list[str],
    requests: Mapping[str, Request] | None = None,
) -> Kits:
    """Kits with a partition of the config's own dataset in them: a rehearsal with known data."""
    _refuse_doubles([*sites, server])
    experiment = prepare(config)
    plan = _plan(config, server, Sizes.of(experiment.public), spread(hosts_of(experiment), sites))
    kits = provision_for(out, plan, port, requests)
    for site, hosts in plan.sites.items():
        for name, clients in hosts.items():
            own = tuple(experiment.shards[number] for number in clients.numbers())
            save_shards(kits.home(site) / "shards" / f"{name}.safetensors", own)
    own_file = kits.server / "local" / "securefg" / coordinator.FILE
    coordinator.write_entitled(own_file, experiment.method, experiment.public)
    return kits


def without_any_data(
    config: RunConfig, server: str, sites: list[str], sizes: Sizes
) -> FederationPlan:
    """One client per site; nobody here has seen the data."""
    _refuse_doubles([*sites, server])
    method = get_method(config.method.name)
    if method.server_knows:
        raise ConfigError(
            f"--without-data: the coordinator of {method.name} has {sorted(method.server_knows)} "
            "of the whole graph; allowed: kits with data dealt out, or another method"
        )
    hosts = {f"client-{k}": Clients(((k, k + 1),)) for k in range(len(sites))}
    return _plan(config, server, sizes, spread(hosts, sites))


def _refuse_doubles(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise ConfigError(f"--site, --server: {', '.join(names)}; wanted different names")


def _plan(
    config: RunConfig, server: str, sizes: Sizes, sites: dict[str, dict[str, Clients]]
) -> FederationPlan:
    run = f"{config.name}-s{config.seed}-{config.hash}"
    return FederationPlan(run, server, config.model_dump(mode="json"), sizes, sites)


def provision_for(
    out: Path, plan: FederationPlan, port: int, requests: Mapping[str, Request] | None = None
) -> Kits:
    """Kits, each with the job to look at and a page of instructions."""
    job = plan.job(1)
    floor = SitePolicy(methods=(job.parsed().method.name,), max_rounds=job.parsed().training.rounds)
    strangers = set(requests or {}) - {plan.server, *plan.sites}
    if strangers:
        raise ConfigError(f"--request: {', '.join(sorted(strangers))}: no party of this federation")
    whole = Plan(plan.server, port, plan.sites, policy=floor, requests=requests or {})
    kits = provision(out, whole)
    plan.write(out)
    hand_out_plan(kits, job)
    for site in plan.sites:
        write_atomically(out / site / "RUNBOOK.md", runbook.site_page(job, site))
    write_atomically(out / plan.server / "RUNBOOK.md", runbook.server_page(job, port))
    write_atomically(out / "RUNBOOK.md", runbook.ADMIN)
    return kits


def complete(kit: Path, own: Path) -> None:
    """At a party: put its own keys into the kit that came back."""
    if (kit / "startup" / "fed_server.json").exists():
        install(kit, own, None, {})
        return
    job = Job.read(plan_path(kit))
    name = read_json(kit / "startup" / "fed_client.json")["client"]["fqsn"]
    install(kit, own, home_of(kit) / "keys", dict(job.sites[name]))


def reviewed(kit: Path) -> tuple[list[str], str | None]:
    """What the job that the kit was made for would send, and why the site's floor refuses it."""
    home, job = home_of(kit), Job.read(plan_path(kit))
    policy, planned = job.policy(), job.planned()
    floor = load_policy(home / POLICY_FILE)
    try:
        floor.check(job.parsed(), policy, planned)
        SiteBooks(home).check(floor, planned_profile(policy, planned))
    except PrivacyError as error:
        return runbook.leaving(job), str(error)
    return runbook.leaving(job), None


def shard_of_own(kit: Path, folder: Path, first_node: int, split: list[str]) -> Path:
    """A site's folder as the shard of its one client, under the federation's node numbers."""
    home, job = home_of(kit), Job.read(plan_path(kit))
    mine = read_json(kit / "startup" / "fed_client.json")["client"]["fqsn"]
    hosts = job.sites[mine]
    numbers = [number for clients in hosts.values() for number in clients.numbers()]
    if len(numbers) != 1:
        raise ConfigError(f"{mine} has the clients {numbers}; a folder makes one client's shard")
    settings = SplitSettings.model_validate(dict(part.split("=", 1) for part in split))
    graph = load(DataSettings(name="folder", folder=folder, split=settings), job.parsed().seed)
    if graph.num_features != job.sizes.num_features:
        raise DataError(
            f"{folder}: {graph.num_features} features; the federation has {job.sizes.num_features}"
        )
    if graph.num_classes > job.sizes.num_classes:
        raise DataError(f"{folder}: labels up to {graph.num_classes - 1}; wanted fewer")
    if first_node + graph.num_nodes > job.sizes.num_nodes:
        raise DataError(
            f"{folder}: nodes {first_node} to {first_node + graph.num_nodes - 1}; the federation's "
            f"index has {job.sizes.num_nodes}"
        )
    ids = torch.arange(first_node, first_node + graph.num_nodes)
    shard = Shard(numbers[0], ids, replace(graph, num_classes=job.sizes.num_classes))
    path = home / "shards" / f"{next(iter(hosts))}.safetensors"
    save_shards(path, (shard,))
    return path
