"""The files of a job as FLARE takes it: the same small app for the server and every site.

No code is in it. What runs is what each organisation has installed, and can review. A site makes
these files from its own plan and takes a job only if it is the same, byte for byte. Nothing heavy
is imported here.
"""

from __future__ import annotations

import json
from typing import Any

JOB_FILE = "securefg_job.json"
CLASSES = [
    "securefg.flare.controller.RunController",
    "securefg.flare.executor.SiteExecutor",
]
TASK = "none"  # FLARE wants every executor to name a task; none of this name is ever given


def app_files(job: dict[str, Any]) -> dict[str, bytes]:
    """Name and content of every file of the app, for a job as JSON has it."""
    controller, executor = CLASSES
    files = {
        "config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": "run", "path": controller, "args": {}}],
        },
        "config_fed_client.json": {
            "format_version": 2,
            # Sites ask for tasks all the time and there are none: seldom is often enough.
            "default_task_fetch_interval": 2.0,
            "executors": [{"tasks": [TASK], "executor": {"path": executor, "args": {}}}],
        },
        JOB_FILE: job,
    }
    return {f"config/{name}": as_bytes(content) for name, content in files.items()}


def as_bytes(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def meta_file(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": job["run"],
        "resource_spec": {},
        # The controller itself waits for all sites; for FLARE a site that dies must not end the
        # job of the others.
        "min_clients": 1,
        "deploy_map": {"app": ["server", *job["sites"]]},
    }
