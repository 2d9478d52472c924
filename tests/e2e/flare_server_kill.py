"""Kills -9 the server of a real federation (FLARE's process and the job's), resumes, and compares.

    python tests/e2e/flare_server_kill.py FOLDER [KILLS]

Exits 1 where the model or the byte counts differ from those of an unbroken run in one process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from securefg.flare import launch as runner
from securefg.flare.local import LocalProcesses, run_locally
from securefg.foundation.errors import RunFailed
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Silent
from tests.small import config

MASKED = "privacy.secure_aggregation={min_holders: 1}"


def main(root: Path, kills: int) -> int:
    overrides = (MASKED, f"training.rounds={2 * kills + 2}", "output.checkpoint_every=1")
    here = runner.start(config(root / "here", *overrides)).folder
    parsed = config(root / "apart", *overrides, "engine.name=flare")
    folder = RunFolder.create(parsed, lambda path: None)
    for kill in range(1, kills + 1):
        struck: list[bool] = []

        def strike(
            processes: LocalProcesses, kill: int = kill, struck: list[bool] = struck
        ) -> None:
            if not struck and len(folder.metrics()) >= 2 * kill:
                struck.append(True)
                processes.kill("localhost")

        try:
            run_locally(prepare(parsed), folder, Silent(), strike)
        except RunFailed as error:
            print(f"kill {kill}: after round {len(folder.metrics())}: {error}", flush=True)
    if not folder.finished:
        runner.resume(folder)
    models = [(run.path / "model.safetensors").read_bytes() for run in (here, folder)]
    sizes = [run.summary().bytes for run in (here, folder)]
    same = models[0] == models[1] and sizes[0] == sizes[1]
    print(f"{folder.summary().attempts} attempts: {'the same bits' if same else 'DIFFERS'}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2))
