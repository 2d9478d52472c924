"""FLARE's settings in a kit, as securefg makes them: a start wants these, byte for byte.

FLARE loads whatever class its settings name, starts whatever launcher, and reads settings under
several names. Whoever provisions hands the files over, and is trusted with names alone: a party
makes them anew from the plan and its certificate, and starts nothing where one differs or is new.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from securefg.flare.app_files import CLASSES
from securefg.foundation.errors import ConfigError, DataError
from securefg.foundation.files import write_atomically
from securefg.foundation.json_text import read_bounded, read_json
from securefg.site.plan import PLAN_FILE, read_plan

PROJECT = "securefg"
SITE_LAUNCHER = "securefg.flare.launcher.SiteLauncher"
SERVER_LAUNCHER = "securefg.flare.launcher.ServerLauncher"
SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
OWN = {"roster.json", "site.json", PLAN_FILE, "coordinator.safetensors"}

RIGHTS = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": {
            "submit_job": "any",
            "manage_job": "any",
            "download_job": "any",
            "view": "any",
            "clone_job": "none",
            "operate": "none",
            "shell_commands": "none",
            "byoc": "none",
        }
    },
}
NETWORK = {
    "allow_adhoc_conns": False,
    "streaming_max_blob_size": 2 * 1024**3,
    # FLARE sends what is not acknowledged within 5 s again; with its own 64 MiB per site in flight
    # that is too short for several sites' large replies on a busy machine.
    "streaming_window_size": 16 * 1024**2,
    "streaming_ack_interval": 4 * 1024**2,
    # The processes of one party talk over loopback: under its own certificate too.
    "internal": {
        "scheme": "tcp",
        "resources": {"host": "localhost", "connection_security": "mtls"},
    },
}


def settings_of(is_server: bool, name: str, server: str, port: int, root: Path) -> dict[str, bytes]:
    """Every settings file of FLARE in a kit, by its path in it.

    root  where a server keeps its jobs and snapshots; FLARE wants a whole path
    """
    own_settings = (
        {
            "startup/fed_server.json": _server_settings(server, port),
            "local/resources.json": _server_resources(root),
        }
        if is_server
        else {
            "startup/fed_client.json": _client_settings(name, server, port),
            "local/resources.json": _site_resources(),
        }
    )
    shared = {
        "local/authorization.json": RIGHTS,
        "local/comm_config.json": NETWORK,
        "local/log_config.json": _log_settings(),
    }
    return {path: _json_bytes(content) for path, content in {**own_settings, **shared}.items()}


def check_settings(kit: Path) -> None:
    """Raise `ConfigError` unless the kit's settings are those that securefg makes here."""
    found = strange_settings(kit, root=kit.resolve())
    if found:
        raise ConfigError("; ".join(found[:3]))


def settle(kit: Path) -> None:
    """Let a server keep its jobs in its kit, wherever that lies now."""
    if (kit / "startup" / "fed_server.json").exists() and not strange_settings(kit):
        write_atomically(
            kit / "local" / "resources.json", _json_bytes(_server_resources(kit.resolve()))
        )


def strange_settings(kit: Path, root: Path | None = None) -> list[str]:
    """What of a kit's `startup` and `local` is not as securefg makes it.

    root  where a server's settings must say that the kit lies; None is wherever they say
    """
    try:
        expected = _expected_settings(kit, root)
    except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"{kit}: its settings cannot be made anew: {type(error).__name__}: {error}"]
    stem = "server" if "startup/fed_server.json" in expected else "client"
    allowed = {f"startup/{name}" for name in (f"{stem}.crt", f"{stem}.key", "rootCA.pem")}
    allowed |= {f"local/securefg/{name}" for name in OWN}
    return [*_differing_settings(kit, expected), *_unknown_files(kit, {*expected, *allowed})]


def _expected_settings(kit: Path, root: Path | None) -> dict[str, bytes]:
    is_server = (kit / "startup" / "fed_server.json").exists()
    stored_settings = read_json(kit / "startup" / f"fed_{'server' if is_server else 'client'}.json")
    plan = read_plan(kit)
    server, sites = str(plan["server"]), plan["sites"]
    name = server if is_server else str(stored_settings["client"]["fqsn"])
    if not SERVER_NAME.fullmatch(server) or not all(map(SITE_NAME.fullmatch, sites)):
        raise ValueError(f"the plan names parties {[server, *sites]!r:.200}")
    if name not in (server, *sites):
        raise ValueError(f"{name!r:.60} is no party of the plan")
    port = int(str(stored_settings["servers"][0]["service"]["target"]).rpartition(":")[2])
    if root is None and is_server:
        storage = read_json(kit / "local" / "resources.json")["snapshot_persistor"]["args"]
        root = Path(storage["storage"]["args"]["root_dir"]).parent
    return settings_of(is_server, name, server, port, root or kit)


def _differing_settings(kit: Path, expected: dict[str, bytes]) -> Iterator[str]:
    for path, content in expected.items():
        try:
            same = read_bounded(kit / path, len(content)) == content
        except (OSError, ValueError):
            same = False
        if not same:
            yield f"{kit / path}: not as securefg makes it; put back what it was"


def _unknown_files(kit: Path, known: set[str]) -> Iterator[str]:
    for part in ("startup", "local"):
        for path in sorted((kit / part).rglob("*")):
            name = path.relative_to(kit).as_posix()
            if name not in known and not (name == "local/securefg" and path.is_dir()):
                yield f"{path}: no file of a kit; FLARE may run what is in it: remove it"


def _json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def _service_settings(server: str, port: int) -> dict[str, Any]:
    return {"name": PROJECT, "service": {"target": f"{server}:{port}", "scheme": "tcp"}}


def _key_settings(stem: str) -> dict[str, str]:
    return {
        "ssl_private_key": f"{stem}.key",
        "ssl_cert": f"{stem}.crt",
        "ssl_root_cert": "rootCA.pem",
        "connection_security": "mtls",
    }


def _client_settings(name: str, server: str, port: int) -> dict[str, Any]:
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [{**_service_settings(server, port), "identity": server}],
        "client": {**_key_settings("client"), "fqsn": name, "is_leaf": True},
    }


def _server_settings(server: str, port: int) -> dict[str, Any]:
    admin = {"admin_server": server, "admin_port": port}
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [{**_service_settings(server, port), **admin, **_key_settings("server")}],
    }


def _resource_settings(launcher: str, *components: dict[str, Any]) -> dict[str, Any]:
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": CLASSES,
        "components": [*components, _part_settings("process_launcher", launcher)],
    }


def _part_settings(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}


def _site_resources() -> dict[str, Any]:
    managers = "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager"
    consumers = "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
    return {
        **_resource_settings(
            SITE_LAUNCHER,
            _part_settings(
                "resource_manager",
                managers,
                num_of_gpus=0,
                mem_per_gpu_in_GiB=0,
                expiration_period=300,
            ),
            _part_settings("resource_consumer", consumers),
        ),
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
    }


def _server_resources(root: Path) -> dict[str, Any]:
    files = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    snapshots = {"root_dir": str(root / "snapshots"), "uri_root": "/"}
    return {
        **_resource_settings(
            SERVER_LAUNCHER,
            _part_settings(
                "job_scheduler",
                "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                max_jobs=4,
                min_schedule_interval=1.0,
            ),
            _part_settings(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root=str(root / "jobs"),
                job_store_id="job_store",
            ),
            _part_settings("job_store", files),
        ),
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 100,
                "heart_beat_timeout": 600,
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor"
            ".StorageStatePersistor",
            "args": {"uri_root": "/", "storage": {"path": files, "args": snapshots}},
        },
    }


def _log_settings() -> dict[str, Any]:
    """To the terminal and to files in the kit; none of it is sent."""
    words = "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s"

    def to_file(name: str, level: str = "DEBUG") -> dict[str, Any]:
        return {
            "class": "logging.handlers.RotatingFileHandler",
            "level": level,
            "formatter": "baseFormatter",
            "filename": name,
            "mode": "a",
            "maxBytes": 20 * 1024**2,
            "backupCount": 10,
        }

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "baseFormatter": {"()": "nvflare.fuel.utils.log_utils.BaseFormatter", "fmt": words}
        },
        "handlers": {
            "consoleHandler": {
                "class": "logging.StreamHandler",
                "level": "DEBUG",
                "formatter": "baseFormatter",
                "stream": "ext://sys.stdout",
            },
            "logFileHandler": to_file("log.txt"),
            "errorFileHandler": to_file("error_log.txt", "ERROR"),
        },
        "loggers": {
            "root": {
                "level": "INFO",
                "handlers": ["consoleHandler", "logFileHandler", "errorFileHandler"],
            }
        },
    }
