"""The run at the server of a federation: the runner over the sites, and how it ended, in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefg.engines.breaches import breach
from securefg.federation.engine import Engine
from securefg.federation.federation import Secure
from securefg.flare.coordinator import FILE as COORDINATOR
from securefg.flare.courier import Courier, Ping, Send
from securefg.flare.server_experiment import without_data
from securefg.flare.server_side import Flare
from securefg.foundation.errors import RunFolderError, SecurefgError
from securefg.foundation.files import write_json
from securefg.foundation.lock import owned
from securefg.run.assembly import Experiment, prepare
from securefg.run.checkpoint import last_checkpoint
from securefg.run.execution import Outcome, Run
from securefg.run.folder import RunFolder
from securefg.run.observing import Silent
from securefg.settings.config import parse_config
from securefg.site.certificates import Root, Signer
from securefg.site.job import Job
from securefg.site.plan import check_planned, read_plan
from securefg.site.roster import read_roster

OUTCOME = "outcome.json"
STOP = "stop"
GOES_ON = "securefg deploy submit KITS, by the one who provisioned"


@dataclass(frozen=True)
class ServerKit:
    """What the server was given at provisioning."""

    signer: Signer
    root: Root
    roster: Path
    runs: Path
    plan: dict[str, Any]

    @classmethod
    def load(cls, startup: Path, local: Path, workspace: Path) -> ServerKit:
        own = local / "securefg"
        return cls(
            Signer.load(startup),
            Root.load(startup),
            own / "roster.json",
            workspace / "securefg_runs",
            read_plan(workspace),
        )


class _Watcher(Silent):
    """Stops a run when FLARE aborts the job, or when a file asks for it."""

    def __init__(self, aborted: Callable[[], bool], stop_file: Path) -> None:
        self._aborted, self._stop_file = aborted, stop_file

    def stop_requested(self) -> bool:
        return self._aborted() or self._stop_file.exists()


class ServerRun:
    """One submission of a run at the server."""

    def __init__(
        self,
        kit: ServerKit,
        job: Job,
        job_id: str,
        send: Send,
        ping: Ping,
        aborted: Callable[[], bool] = lambda: False,
    ) -> None:
        check_planned(kit.plan, job.to_json())  # before the job says where to write
        self._kit, self._job, self._job_id = kit, job, job_id
        self._send, self._ping, self._aborted = send, ping, aborted
        self._engine: Flare | None = None
        self._folder = RunFolder(Path(job.run_folder) if job.run_folder else kit.runs / job.run)

    def execute(self) -> tuple[Path, Exception | None]:
        """Run to the end, or to what ends it; `outcome.json` says which."""
        error: Exception | None = None
        try:
            outcome = self._run()
            ended = {"reason": outcome.reason, "finished": outcome.summary is not None}
        except SecurefgError as raised:
            error, ended = raised, breach(raised)
        except Exception as raised:
            error, ended = raised, {"breach": "RunFailed", "reason": f"a bug: {raised!r}"}
        told = self._folder.path / "private"
        told.mkdir(parents=True, exist_ok=True)
        complaints = self._engine.complaints if self._engine else {}
        about = {"submission": self._job.submission, "complaints": complaints}
        write_json(told / OUTCOME, {**about, **ended})
        return self._folder.path, error

    def _run(self) -> Outcome:
        config = self._job.parsed()
        experiment = prepare(config) if self._job.has_truth else self._deployed()
        folder = self._open(experiment)
        watcher = _Watcher(self._aborted, folder.path / "private" / STOP)
        # Whoever started the federation on this machine holds the folder itself.
        with owned(folder.path / "private" if self._job.run_folder else folder.path):
            checkpoint = last_checkpoint(folder.checkpoints, config.hash)
            return Run(
                experiment,
                folder,
                watcher,
                checkpoint,
                self._enrol,
                self._start_engine,
                None if self._job.run_folder else GOES_ON,
            ).execute()

    def _deployed(self) -> Experiment:
        return without_data(self._job, self._kit.roster.with_name(COORDINATOR))

    def _open(self, experiment: Experiment) -> RunFolder:
        """The run's folder, new or where an earlier submission left it."""
        path = self._folder.path
        if not path.exists():
            tree = {**self._job.config, "output": {**self._job.config["output"]}}
            tree["output"]["root"] = str(path.parent)
            made = RunFolder.create(parse_config(tree), lambda _: None)
            if made.path != path:
                raise RunFolderError(f"the job calls its run {self._job.run}, not {made.path.name}")
        folder = RunFolder.open(path)
        if folder.finished:
            raise RunFolderError(
                f"{path.name}: the run has finished; nothing is left to resume; for another one "
                "provision with another name or seed"
            )
        if folder.config().hash != experiment.config.hash:
            raise RunFolderError(f"{path.name}: a run of another config")
        return folder

    def _enrol(self, experiment: Experiment, folder: RunFolder) -> Secure | None:
        settings = experiment.config.privacy.secure_aggregation
        if settings is None:
            return None
        roster = read_roster(self._kit.roster, self._kit.root, self._job.sites)
        return Secure(settings, experiment.config.hash, roster)

    def _start_engine(
        self, experiment: Experiment, folder: RunFolder, attempt: int, secure: Secure | None
    ) -> Engine:
        settings = experiment.config.engine
        courier = Courier(
            self._job_id,
            self._job.sites,
            self._kit.signer,
            self._kit.root,
            self._send,
            self._ping,
            settings.timeout,
            settings.patience,
        )
        attempts = (folder.path / "attempts.jsonl").read_text().splitlines()
        after_round = json.loads(attempts[-1])["after_round"]
        self._engine = Flare(self._job, courier, attempt, after_round, settings.start_within)
        return self._engine
