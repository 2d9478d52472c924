"""The page in each kit: what to install, what leaves, how to look at it, how to stop."""

from __future__ import annotations

from securefg.flare.job import Job
from securefg.flare.site_policy import planned_profile
from securefg.methods.registry import get_method
from securefg.privacy.accountants import claim
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.private_training import PrivateTraining

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

Ctrl-C stops it. A round that is under way goes on without you, and what you sent in it so far stays
masked if it was to be masked. Afterwards `securefg deploy ledger .` shows all that left.
"""

SERVER = """\
# Runbook for the server `{server}`

Install Python 3.11 or newer and `pip install 'securefg[flare]'`. Port {port} must be reachable from
the sites ({sites}) under the name `{server}`; no other port is opened to the outside.
No data comes here: only what the sites' runbooks list. The run's folder grows in `securefg_runs/`.

    securefg deploy start .

Ctrl-C stops it. After a crash start it again; the run goes on with a new submission by the admin,
from its last checkpoint.
"""

ADMIN = """\
# Runbook for the admin

Give every party its own folder and nothing else, over a way that you trust, and keep no copy. The
root's key was written nowhere: for another party, provision anew.

    securefg deploy submit KITS     wait for all sites, start the run; again: go on with it
    securefg deploy status KITS     who is connected, how the job does
    securefg deploy fetch  KITS     bring the run's folder here
"""


def site_page(job: Job, site: str) -> str:
    config = job.parsed()
    others = [name for name in job.sites if name != site]
    return SITE.format(
        site=site,
        method=config.method.name,
        others=", ".join(others) or "nobody else",
        server=job.server,
        hosts=", ".join(f"`{h}` (clients {c})" for h, c in job.sites[site].items()),
        leaves="\n".join(leaving(job)),
        scores="With `scores: true` in your policy: how many of your own validation and test nodes "
        "a model gets right,\nand its loss on the former, rounded, once per round.",
    )


def server_page(job: Job, port: int) -> str:
    return SERVER.format(server=job.server, port=port, sites=", ".join(job.sites))


def leaving(job: Job) -> list[str]:
    """A line per private field, with its protection, and what all of it costs."""
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
