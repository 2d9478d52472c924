"""A job's files as FLARE takes them: written for an administrator, checked where they arrive.

The server and every site get the same small app, and no code is in it. Each organisation runs the
code that it has installed and can review. A site makes these files from its own plan and takes a
job only if it is the same, byte for byte. Nothing heavy is imported here.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from securefg.foundation.files import json_text, write_atomically, write_json
from securefg.foundation.json_text import parse_json
from securefg.site.plan import OtherJob, read_plan

JOB_FILE = "securefg_job.json"
CLASSES = [
    "securefg.flare.controller.RunController",
    "securefg.flare.executor.SiteExecutor",
]
TASK = "none"  # FLARE wants every executor to name a task; none of this name is ever given
SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}
LARGEST_SIGNATURE = 64 * 1024
JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_TORN = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, RuntimeError)
"""A RuntimeError is an encrypted member, or a compression that zipfile does not know."""


def app_files(job: dict[str, Any]) -> dict[str, bytes]:
    """Return name and content of every file of the app, for a job as JSON has it."""
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
    return {f"config/{name}": json_text(content).encode() for name, content in files.items()}


def write_flare_job(folder: Path, job: dict[str, Any]) -> None:
    """Write the job's folder as an administrator submits it, for a job as JSON has it."""
    meta = {
        "name": job["run"],
        "resource_spec": {},
        # The controller itself waits for all sites; for FLARE a site that dies must not end the
        # job of the others.
        "min_clients": 1,
        "deploy_map": {"app": ["server", *job["sites"]]},
    }
    write_json(folder / "meta.json", meta)
    for name, content in app_files(job).items():
        write_atomically(folder / "app" / name, content)


def admitter(kit: Path) -> Callable[[str, bytes, dict[str, Any]], None]:
    """Return a check of jobs that arrive at a site, by the plan in its kit, read anew for each."""

    def admit(job_id: str, app: bytes, meta: dict[str, Any]) -> None:
        check_deployed(read_plan(kit), job_id, app, meta)

    return admit


def check_deployed(plan: dict[str, Any], job_id: str, app: bytes, meta: dict[str, Any]) -> None:
    """Raise unless the app is the plan's, file by file and byte by byte, but for its number."""
    if not isinstance(job_id, str) or not JOB_ID.fullmatch(job_id):
        raise OtherJob(f"a job called {job_id!r:.60}; wanted a random number")
    extra = [key for key in ("launcher_spec", "resource_spec", "byoc") if meta.get(key)]
    if extra:
        raise OtherJob(f"the job asks for {', '.join(extra)}; wanted none")
    found = _unpack_app(app, plan)
    expected = app_files({**plan, "submission": _submission_number(found)})
    for name, content in expected.items():
        if found.get(name) != content:
            raise OtherJob(f"{name} is not what the plan in this kit makes it")


def _unpack_app(app: bytes, plan: dict[str, Any]) -> dict[str, bytes]:
    """The files, none larger than it can be; refuses names that are not expected."""
    longest = {name: len(content) + 20 for name, content in app_files(plan).items()}
    for folder in ("", "config/"):
        longest |= {folder + name: LARGEST_SIGNATURE for name in SIGNATURES}
    try:
        with zipfile.ZipFile(io.BytesIO(app)) as archive:
            files = [entry for entry in archive.infolist() if not entry.is_dir()]
            folders = {entry.filename for entry in archive.infolist() if entry.is_dir()}
            names = [entry.filename for entry in files]
            strange = sorted((set(names) - set(longest)) | (folders - {"config/"}))
            if strange or len(set(names)) != len(names):
                raise OtherJob(f"the job has {', '.join(strange)[:100] or 'files twice'} in it")
            large = [entry.filename for entry in files if entry.file_size > longest[entry.filename]]
            if large:
                raise OtherJob(f"{', '.join(large)}: larger than the plan makes it")
            return {name: archive.read(name) for name in names}
    except _TORN as error:
        raise OtherJob(f"the job cannot be unpacked: {type(error).__name__}") from None


def _submission_number(found: dict[str, bytes]) -> int:
    try:
        number = parse_json(found[f"config/{JOB_FILE}"])["submission"]
    except (KeyError, ValueError, TypeError):
        raise OtherJob(f"the job has no {JOB_FILE} with a number of submission") from None
    if type(number) is not int or not 0 < number < 10**9:
        raise OtherJob(f"submission {number!r:.30}; wanted a positive number")
    return number
