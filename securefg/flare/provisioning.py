"""From a config to kits that can be handed out, and what a site does with its own kit.

Each kit has a page of instructions (RUNBOOK.md): what to install, what leaves, how to look at it,
how to stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from securefg.data.datasets import load
from securefg.data.shard import Shard, save_shards
from securefg.flare import coordinator
from securefg.flare.enrolment import Request, install
from securefg.flare.kits import FederationPlan, Kits, Plan, hand_out_plan, home_of, provision_kits
from securefg.foundation.errors import ConfigError, DataError, PrivacyError
from securefg.foundation.files import write_atomically
from securefg.foundation.json_text import read_json
from securefg.methods.registry import get_method
from securefg.privacy.accountants import claim
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.private_training import PrivateTraining
from securefg.protocol.codec import Clients
from securefg.runs.assembly import hosts_of, prepare
from securefg.settings.config import RunConfig
from securefg.settings.data import DataSettings, SplitSettings
from securefg.site.books import SiteBooks
from securefg.site.cohorts import clients_by_organisation
from securefg.site.job import Job, Sizes, spread_hosts
from securefg.site.plan import plan_path
from securefg.site.policy import POLICY_FILE, SitePolicy, load_policy, planned_profile

SITE = """\
# Runbook for {site}

You were asked to train `{method}` together with {others}. The server is `{server}`.
This folder is yours alone: it holds the key that proves who you are. Keep it readable by you only.

## Install
Python 3.11 or newer, then `pip install 'securefg[flare]'`. Nothing is sent to you later: the job
has no code in it, and your machine loads two classes of securefg and no others
(`local/resources.json`, `class_allow_list`).

## Your data
Your hosts are {hosts}. Each reads `securefg/shards/<host>.safetensors`.
If the file is not there, make it from a folder with edges, features and labels:

    securefg deploy shard . YOUR-FOLDER --first-node N

## What leaves your site
{leaves}
{scores}
Certificates, addresses, sizes and times of messages are seen by whoever watches the network; their
content is under TLS. Your own ledger, states and shards stay in `securefg/`.

## Your keys
If you sent a request, your keys are where you made them: `securefg deploy install . YOUR-KEYS`.
If you did not, whoever gave you this folder made them: a rehearsal.

## Your own floor
`securefg/site_policy.yaml` is strict as it comes; change it to what you want. Without it nothing
runs.
A job below it is refused by your machine, with the reason, whatever the server asks.

## Look before you agree
    securefg deploy review .      what this job would send, and whether your floor allows it
    securefg deploy check .       what your machine answers, to whom; keys, policy, books, versions
    securefg deploy ledger .      what has left this site, and what it has cost

## Start and stop
    securefg deploy start .

Ctrl-C stops it at once. A round that is under way goes on without you, and what you sent in it so
far stays masked if it was to be masked. FLARE's log is in `console.log`.
Afterwards `securefg deploy ledger .` shows all that left.
"""

SERVER = """\
# Runbook for the server `{server}`

Install Python 3.11 or newer and `pip install 'securefg[flare]'`. Port {port} must be reachable from
the sites ({sites}) under the name `{server}`; no other port is opened to the outside.
No data comes here: only what the sites' runbooks list. The run's folder grows in `securefg_runs/`.

    securefg deploy start .

Ctrl-C stops it at once. FLARE's log is in `console.log`. After a crash start it again; the run goes
on with a new submission by the admin, from its last checkpoint.
"""

ADMIN = """\
# Runbook for the admin

Give every party its own folder and nothing else, over a way that you trust, and keep no copy. The
root's key was written nowhere: for another party, provision anew.

    securefg deploy submit KITS     wait for all sites, start the run; again: go on with it
    securefg deploy status KITS     round, epsilon spent, time left, each site's last sign of life
    securefg deploy stop   KITS     end the run after its round; submit goes on with it
    securefg deploy fetch  KITS     bring the run's folder here, whole or as far as it came
    securefg deploy clean  KITS     remove logs and the traces of jobs; keys stay
"""


def dealt_out(
    out: Path,
    config: RunConfig,
    server: str,
    port: int,
    sites: list[str],
    requests: Mapping[str, Request] | None = None,
) -> Kits:
    """Make kits with a partition of the config's own dataset in them, for a rehearsal."""
    _refuse_doubles([*sites, server])
    experiment = prepare(config)
    plan = _make_plan(
        config, server, Sizes.of(experiment.public), spread_hosts(hosts_of(experiment), sites)
    )
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
    """Return a plan with one client per site, where nobody here has seen the data."""
    _refuse_doubles([*sites, server])
    method = get_method(config.method.name)
    if method.server_knows:
        raise ConfigError(
            f"--without-data: the coordinator of {method.name} has {sorted(method.server_knows)} "
            "of the whole graph; allowed: kits with data dealt out, or another method"
        )
    hosts = {f"client-{k}": Clients(((k, k + 1),)) for k in range(len(sites))}
    return _make_plan(config, server, sizes, spread_hosts(hosts, sites))


def _refuse_doubles(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise ConfigError(f"--site, --server: {', '.join(names)}; wanted different names")


def _make_plan(
    config: RunConfig, server: str, sizes: Sizes, sites: dict[str, dict[str, Clients]]
) -> FederationPlan:
    masking = config.privacy.secure_aggregation
    if masking is not None and masking.form != "session":
        raise ConfigError(
            f"privacy.secure_aggregation.form: found {masking.form}; expected session at sites: "
            "members do not enrol their keys there"
        )
    run = f"{config.name}-s{config.seed}-{config.hash}"
    return FederationPlan(run, server, config.model_dump(mode="json"), sizes, sites)


def provision_for(
    out: Path, plan: FederationPlan, port: int, requests: Mapping[str, Request] | None = None
) -> Kits:
    """Make kits, each with the job to look at and a page of instructions."""
    job = plan.job(1)
    floor = SitePolicy(methods=(job.parsed().method.name,), max_rounds=job.parsed().training.rounds)
    strangers = set(requests or {}) - {plan.server, *plan.sites}
    if strangers:
        raise ConfigError(f"--request: {', '.join(sorted(strangers))}: no party of this federation")
    whole = Plan(plan.server, port, plan.sites, policy=floor, requests=requests or {})
    kits = provision_kits(out, whole)
    plan.write(out)
    hand_out_plan(kits, job)
    for site in plan.sites:
        write_atomically(out / site / "RUNBOOK.md", _site_page(job, site))
    write_atomically(out / plan.server / "RUNBOOK.md", _server_page(job, port))
    write_atomically(out / "RUNBOOK.md", ADMIN)
    return kits


def complete_kit(kit: Path, own_folder: Path) -> None:
    """Put a party's own keys into the kit that came back to it."""
    if (kit / "startup" / "fed_server.json").exists():
        install(kit, own_folder, None, {})
        return
    job = Job.read(plan_path(kit))
    name = read_json(kit / "startup" / "fed_client.json")["client"]["fqsn"]
    install(kit, own_folder, home_of(kit) / "keys", dict(job.sites[name]))


def review_kit(kit: Path) -> tuple[list[str], str | None]:
    """Return what the kit's job would send, and why the site's floor refuses it or None."""
    home, job = home_of(kit), Job.read(plan_path(kit))
    policy, planned = job.policy(), job.planned()
    floor = load_policy(home / POLICY_FILE)
    try:
        floor.check(job.parsed(), policy, planned, clients_by_organisation(job.sites))
        SiteBooks(home).check(floor, planned_profile(policy, planned))
    except PrivacyError as error:
        return leaving_lines(job), str(error)
    return leaving_lines(job), None


def shard_of_own(kit: Path, folder: Path, first_node: int, split: list[str]) -> Path:
    """Write a site's folder as the shard of its one client. Return the shard's path.

    first_node  the federation's number of the folder's first node
    """
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


def _site_page(job: Job, site: str) -> str:
    config = job.parsed()
    others = [name for name in job.sites if name != site]
    return SITE.format(
        site=site,
        method=config.method.name,
        others=", ".join(others) or "nobody else",
        server=job.server,
        hosts=", ".join(f"`{h}` (clients {c})" for h, c in job.sites[site].items()),
        leaves="\n".join(leaving_lines(job)),
        scores="With `scores: true` in your policy: how many of your own validation and test nodes "
        "a model gets right,\nand its loss on the former, rounded, once per round.",
    )


def _server_page(job: Job, port: int) -> str:
    return SERVER.format(server=job.server, port=port, sites=", ".join(job.sites))


def leaving_lines(job: Job) -> list[str]:
    """Return a line per private field, with its protection, and what all of it costs."""
    policy, planned = job.policy(), job.planned()
    known = get_method(job.parsed().method.name).server_knows
    lines = []
    if known:
        lines.append(f"- the server has of the whole graph beforehand: {', '.join(sorted(known))}")
    for release in planned:
        rule = policy.rules[release.name]
        words = "without noise"
        if isinstance(rule, NoisyUpload | PrivateTraining):
            words = f"{rule.name}, noise multiplier {rule.noise_multiplier:.4g}"
        masked = "; masked, the server learns the sum" if release.name in policy.masked else ""
        lines.append(
            f"- `{release.name}`: {release.dim} numbers per client, at most {release.count} times; "
            f"{words}{masked}"
        )
    total = claim([planned_profile(policy, planned)], policy.unit, policy.delta)
    cost = f"{total.epsilon:.4g} at delta {total.delta:g}" if not total.because else "infinite"
    return [*lines, f"- epsilon per {total.unit} if the run goes to its end: {cost}"]
