"""The job's folder as an administrator submits it."""

from __future__ import annotations

from pathlib import Path

from securefg.flare.app_files import app_files, meta_file
from securefg.flare.job import Job
from securefg.foundation.files import write_atomically, write_json


def write_flare_job(folder: Path, job: Job) -> None:
    write_json(folder / "meta.json", meta_file(job.to_json()))
    for name, content in app_files(job.to_json()).items():
        write_atomically(folder / "app" / name, content)
