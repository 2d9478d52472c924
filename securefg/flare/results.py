"""Files of a run that an administrator can fetch: all but what is private to the server's machine.

The server's own process copies it when a job has ended, in whatever way: a job whose process was
killed leaves what it had.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from securefg.site.plan import read_plan

RESULT: Final = "securefg_run"
KEPT_HERE: Final = ("private", "checkpoints", ".*")


def find_run(kit: Path, plan: dict[str, Any]) -> Path:
    """Return the folder of the plan's run at the server."""
    elsewhere = plan.get("run_folder")
    return Path(elsewhere) if elsewhere else kit / "securefg_runs" / str(plan["run"])


def publish_run(kit: Path, target: Path) -> None:
    """Copy what may be fetched of the plan's run, if there is a run and it lies in this kit."""
    plan = read_plan(kit)
    folder = find_run(kit, plan)
    if not plan.get("run_folder") and (folder / "config.yaml").is_file():
        ignored = shutil.ignore_patterns(*KEPT_HERE)
        shutil.copytree(folder, target, ignore=ignored, symlinks=True, dirs_exist_ok=True)


def hand_over_runs(kit: Path) -> None:
    """Have this server put the run beside what FLARE archives of every job that has ended."""
    from nvflare.private.fed.server.job_runner import JobRunner

    save = JobRunner._save_workspace

    def save_with_run(self: Any, fl_ctx: Any, finished: Any = None, job_id: Any = None) -> None:
        folder = Path(fl_ctx.get_workspace().get_run_dir(job_id)) if job_id else None
        is_archived = finished is not None and finished.workspace_archive_written
        if folder is not None and folder.is_dir() and not is_archived:
            publish_run(kit, folder / RESULT)
        save(self, fl_ctx, finished, job_id)

    JobRunner._save_workspace = save_with_run
