"""The job's folder as FLARE takes it: the same small app for the server and every site.

No code is in it. What runs is what each organisation has installed, and can review.
"""

from __future__ import annotations

from pathlib import Path

from securefg.flare.job import JOB_FILE, Job
from securefg.flare.kits import CLASSES
from securefg.foundation.files import write_json

TASK = "none"  # FLARE wants every executor to name a task; none of this name is ever given


def write_flare_job(folder: Path, job: Job) -> None:
    controller, executor = CLASSES
    write_json(
        folder / "meta.json",
        {
            "name": job.run,
            "resource_spec": {},
            # The controller itself waits for all sites; for FLARE a site that dies must not end
            # the job of the others.
            "min_clients": 1,
            "deploy_map": {"app": ["server", *job.sites]},
        },
    )
    config = folder / "app" / "config"
    write_json(
        config / "config_fed_server.json",
        {"format_version": 2, "workflows": [{"id": "run", "path": controller, "args": {}}]},
    )
    write_json(
        config / "config_fed_client.json",
        {
            "format_version": 2,
            # Sites ask for tasks all the time and there are none: seldom is often enough.
            "default_task_fetch_interval": 2.0,
            "executors": [{"tasks": [TASK], "executor": {"path": executor, "args": {}}}],
        },
    )
    job.write(config / JOB_FILE)
