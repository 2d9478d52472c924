"""A party's view of its own kit: open doors, ports, policy, books, keys and versions."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from securefg.flare.guard.doors import DOORS, Kind
from securefg.flare.guard.modes import mode_problems
from securefg.flare.guard.settings import strange_settings
from securefg.flare.guard.supported import SUPPORTED, is_supported
from securefg.flare.kits import home_of
from securefg.flare.processes import find_processes
from securefg.foundation.errors import DataError, SecurefgError
from securefg.foundation.json_text import read_json
from securefg.site.books import SiteBooks
from securefg.site.certificates import Root, Signer
from securefg.site.job import Job
from securefg.site.plan import plan_path, read_plan
from securefg.site.policy import POLICY_FILE, load_policy
from securefg.site.roster import read_roster

SOON = datetime.timedelta(days=30)


@dataclass(frozen=True)
class Line:
    """One thing that was looked at; `bad` says what is wrong with it."""

    what: str
    found: str
    bad: str = ""


def inspect_posture(kit: Path) -> list[Line]:
    """Return everything that was looked at in a kit, with what is wrong."""
    is_server = (kit / "startup" / "fed_server.json").exists()
    if not is_server and not (kit / "startup" / "fed_client.json").exists():
        raise DataError(f"{kit}: not a kit")
    lines = [
        *_version_lines(),
        *_key_lines(kit),
        *_network_lines(kit),
        *_door_lines(is_server),
        *_port_lines(kit),
    ]
    return lines if is_server else [*lines, *_site_lines(kit)]


def _version_lines() -> Iterator[Line]:
    yield Line("securefg", importlib.metadata.version("securefg"))
    found = importlib.metadata.version("nvflare")
    bad = "" if is_supported(found) else f"the doors were reviewed for {SUPPORTED}"
    yield Line("NVIDIA FLARE", found, bad)


def _key_lines(kit: Path) -> Iterator[Line]:
    found = mode_problems(kit)
    yield Line(
        "files", "the owner's alone" if not found else "open to others", "; ".join(found[:5])
    )
    for path in sorted((kit / "startup").glob("*.crt")):
        key = path.with_suffix(".key")
        ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
        late = ends - datetime.datetime.now(datetime.UTC) < SOON
        bad = f"ends {ends:%Y-%m-%d}" if late else ""
        if not key.exists():
            bad = f"{key} is missing: `securefg deploy install`"
        elif not _belong_together(path, key):
            bad = f"{key} is not the certificate's: `securefg deploy install`"
        yield Line("certificate", f"{path.name}, until {ends:%Y-%m-%d}", bad)


def _belong_together(certificate: Path, key: Path) -> bool:
    try:
        private_key = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        return False
    shown = x509.load_pem_x509_certificate(certificate.read_bytes())
    return private_key.public_key() == shown.public_key()


def _network_lines(kit: Path) -> Iterator[Line]:
    """What the settings in the kit say of ports and of code in jobs."""
    other = strange_settings(kit)
    yield Line(
        "settings", "as securefg makes them" if not other else "changed", "; ".join(other[:5])
    )
    try:
        network = read_json(kit / "local" / "comm_config.json")
        security = network["internal"]["resources"]["connection_security"]
        adhoc = network["allow_adhoc_conns"]
    except (OSError, ValueError, KeyError, TypeError):
        security, adhoc = "not set", True
    bad = "" if (security, adhoc) == ("mtls", False) else "wanted mtls, and no others"
    yield Line("internal port", f"loopback, {security}", bad)
    try:
        rights = read_json(kit / "local" / "authorization.json")["permissions"]
        open_rights = {
            f"{role} may {right}"
            for role, granted in rights.items()
            for right in ("byoc", "shell_commands", "operate")
            if granted == "any" or granted.get(right) != "none"
        }
    except (OSError, ValueError, KeyError, AttributeError):
        open_rights = {"no rights are set"}
    yield Line(
        "code in jobs", "none" if not open_rights else "some", "; ".join(sorted(open_rights))
    )


def _door_lines(is_server: bool) -> Iterator[Line]:
    kinds = (Kind.SERVER, Kind.SERVER_JOB) if is_server else (Kind.SITE, Kind.SITE_JOB)
    for kind in kinds:
        for asks, doors in DOORS[kind].items():
            names = ", ".join(sorted("/".join(door) for door in doors))
            yield Line(f"{kind} answers {asks}", names)


def _port_lines(kit: Path) -> Iterator[Line]:
    """Where the kit's processes listen now, if any run."""
    psutil: Any = importlib.import_module("psutil")
    listening_addresses = [
        f"{one.laddr.ip}:{one.laddr.port}"
        for pid in find_processes(kit)
        for one in psutil.Process(pid).net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    ]
    yield Line("listens on", ", ".join(sorted(listening_addresses)) or "nothing: not started")


def _host_lines(kit: Path, home: Path) -> Iterator[Line]:
    """The hosts' shards, and their masking keys where the roster has their other halves."""
    try:
        job = Job.read(plan_path(kit))
        site_clients = job.sites[Signer.load(kit / "startup").name]
        read_roster(
            kit / "local" / "securefg" / "roster.json", Root.load(kit / "startup"), job.sites
        )
        wanted = [
            *(home / "shards" / f"{name}.safetensors" for name in site_clients),
            *(home / "keys" / f"{name}.keys" for name in site_clients),
        ]
        missing = [str(path) for path in wanted if not path.is_file()]
        bad = f"missing: {', '.join(missing)}" if missing else ""
        yield Line("hosts", f"{', '.join(site_clients)}; roster signed by all", bad)
    except (SecurefgError, KeyError) as error:
        yield Line("hosts", "none", str(error))


def _site_lines(kit: Path) -> Iterator[Line]:
    home = home_of(kit)
    try:
        plan = read_plan(kit)
        yield Line("plan", f"{plan['run']} with {len(plan['sites'])} sites")
    except SecurefgError as error:
        yield Line("plan", "none", str(error))
    yield from _host_lines(kit, home)
    try:
        policy = load_policy(home / POLICY_FILE)
        words = ", ".join(f"{k} {v}" for k, v in policy.model_dump(mode="json").items())
        yield Line("policy", words)
    except SecurefgError as error:
        yield Line("policy", "none", str(error))
    try:
        books = SiteBooks(home)
        yield Line("books", f"{len(books.jobs())} jobs, {len(books.releases())} requests, whole")
    except SecurefgError as error:
        yield Line("books", "damaged", str(error))
