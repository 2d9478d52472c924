"""Whether a job that arrived at a site is the one that was reviewed there. Nothing heavy here."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from securefg.flare.app_files import JOB_FILE, app_files
from securefg.foundation.errors import DataError, PrivacyError
from securefg.foundation.json_text import parse_json, read_json

PLAN_FILE = "federation_plan.json"
SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}
LARGEST_SIGNATURE = 64 * 1024
JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]{0,199}")


_TORN = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, RuntimeError)
"""A RuntimeError is an encrypted member, or a compression that zipfile does not know."""


class OtherJob(PrivacyError):
    """A job that is not the one in the plan."""


def admitter(kit: Path) -> Callable[[str, bytes, dict[str, Any]], None]:
    """Decides about jobs at a site by the plan in its kit, read anew for each."""

    def admit(job_id: str, app: bytes, meta: dict[str, Any]) -> None:
        check_deployed(read_plan(kit), job_id, app, meta)

    return admit


def read_plan(kit: Path) -> dict[str, Any]:
    path = kit / "local" / "securefg" / PLAN_FILE
    try:
        plan: dict[str, Any] = read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: no plan: {error}") from error
    return plan


def check_deployed(plan: dict[str, Any], job_id: str, app: bytes, meta: dict[str, Any]) -> None:
    """Raise unless the app is the plan's, file by file and byte by byte, but for its number."""
    if not isinstance(job_id, str) or not JOB_ID.fullmatch(job_id):
        raise OtherJob(f"a job called {job_id!r:.60}; wanted a random number")
    extra = [key for key in ("launcher_spec", "resource_spec", "byoc") if meta.get(key)]
    if extra:
        raise OtherJob(f"the job asks for {', '.join(extra)}; wanted none")
    found = _unpacked(app, plan)
    expected = app_files({**plan, "submission": _submission(found)})
    for name, content in expected.items():
        if found.get(name) != content:
            raise OtherJob(f"{name} is not what the plan in this kit makes it")


def check_planned(plan: dict[str, Any], job: dict[str, Any]) -> None:
    """Raise unless the job is the plan's, but for the number of the submission."""
    differ = [key for key in {**plan, **job} if plan.get(key) != job.get(key)]
    if set(differ) - {"submission"}:
        raise OtherJob(
            f"the job is not the one in this kit's plan: {', '.join(sorted(differ))} differ"
        )


def _unpacked(app: bytes, plan: dict[str, Any]) -> dict[str, bytes]:
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


def _submission(found: dict[str, bytes]) -> int:
    try:
        number = parse_json(found[f"config/{JOB_FILE}"])["submission"]
    except (KeyError, ValueError, TypeError):
        raise OtherJob(f"the job has no {JOB_FILE} with a number of submission") from None
    if type(number) is not int or not 0 < number < 10**9:
        raise OtherJob(f"submission {number!r:.30}; wanted a positive number")
    return number
