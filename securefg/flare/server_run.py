"""A run at the server of a federation: the runner over the sites, and a file on how it ended.

A deployed server has the job's rules, public facts, and the parts of the graph that its method
entitles it to (`coordinator.py`). It has no other data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from securefg.engines.breaches import breach_header
from securefg.federation.engine import Engine
from securefg.flare.coordinator import FILE as COORDINATOR
from securefg.flare.coordinator import read_entitled
from securefg.flare.courier import Courier, Ping, Send
from securefg.flare.progress import STATUS, Progress, ProgressFile
from securefg.flare.server_side import Flare
from securefg.flare.standings import Standings
from securefg.foundation.errors import RunFolderError, SecurefgError
from securefg.foundation.files import PRIVATE, write_json
from securefg.foundation.lock import owned
from securefg.methods.registry import get_method
from securefg.runs.assembly import Setup, prepare
from securefg.runs.checkpoint import last_checkpoint
from securefg.runs.device import choose_device
from securefg.runs.execution import Outcome, Run
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from securefg.secagg.forms import Secure
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
    def load(cls, kit: Path) -> ServerKit:
        """Return what is in the server's kit: its key, the root, the roster and the plan."""
        startup = kit / "startup"
        roster = kit / "local" / "securefg" / "roster.json"
        runs = kit / "securefg_runs"
        return cls(Signer.load(startup), Root.load(startup), roster, runs, read_plan(kit))


class _Watcher(Silent):
    """Tells how far a run is; stops it when FLARE aborts the job, or when a file asks for it."""

    def __init__(
        self,
        aborted: Callable[[], bool],
        folder: Path,
        progress: ProgressFile,
    ) -> None:
        self._aborted, self._progress = aborted, progress
        self._stop_file = folder / "private" / STOP

    def started(self, experiment: Setup, first_round: int) -> None:
        self._progress.update_progress(state="running", round=first_round - 1)

    def round_done(self, report: RoundReport) -> None:
        self._progress.update_progress(
            round=report.round,
            seconds=report.seconds,
            epsilon=report.epsilon,
            dropped=report.dropped,
        )

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
        self._progress: ProgressFile | None = None
        self._folder = RunFolder(Path(job.run_folder) if job.run_folder else kit.runs / job.run)

    def execute(self) -> tuple[Path, Exception | None]:
        """Run to the end, or to what ends it; `outcome.json` says which."""
        error: Exception | None = None
        try:
            outcome = self._run_job()
            ended = {"reason": outcome.reason, "finished": outcome.summary is not None}
        except SecurefgError as raised:
            error, ended = raised, breach_header(raised)
        except Exception as raised:
            error, ended = raised, {"breach": "RunFailed", "reason": f"a bug: {raised!r}"}
        private_folder = self._folder.path / "private"
        private_folder.mkdir(parents=True, exist_ok=True)
        complaints = self._engine.complaints if self._engine else {}
        about = {"submission": self._job.submission, "complaints": complaints}
        write_json(private_folder / OUTCOME, {**about, **ended}, mode=PRIVATE)
        self._tell_end(ended)
        return self._folder.path, error

    def _tell_away(self, away: dict[str, str]) -> None:
        if self._progress is not None:
            self._progress.update_progress(away=away)

    def _tell_end(self, ended: dict[str, Any]) -> None:
        """Say in the status how the submission ended."""
        whole = "finished" if ended.get("finished") else "interrupted"
        state = "failed" if "breach" in ended else whole
        if self._progress is not None:
            self._progress.update_progress(state=state, reason=ended["reason"])

    def _run_job(self) -> Outcome:
        config = self._job.parsed()
        setup = prepare(config) if self._job.has_truth else self._deployed_setup()
        folder = self._open_folder(setup)
        # Whoever started the federation on this machine holds the folder itself.
        with owned(folder.path / "private" if self._job.run_folder else folder.path):
            self._progress = self._begin_progress(folder)
            watcher = _Watcher(self._aborted, folder.path, self._progress)
            checkpoint = last_checkpoint(folder.checkpoints, config.hash)
            return Run(
                setup,
                folder,
                watcher,
                checkpoint,
                partial(self._enrol_secure, setup),
                partial(self._start_engine, setup, folder),
                None if self._job.run_folder else GOES_ON,
            ).execute()

    def _begin_progress(self, folder: RunFolder) -> ProgressFile:
        """Say that this submission begins; forget a wish to stop an earlier one."""
        private, config = folder.path / "private", self._job.parsed()
        stop = private / STOP
        if not self._job.run_folder and stop.exists() and stop.read_text() != self._job_id:
            stop.unlink()
        lines = folder.metrics()
        done = {key: lines[-1][key] for key in ("round", "seconds", "epsilon")} if lines else {}
        first = Progress(
            submission=self._job.submission, state="starting", rounds=config.training.rounds, **done
        )
        return ProgressFile(private / STATUS, first)

    def _deployed_setup(self) -> Setup:
        """Return the job's rules and public facts, with what the method entitles the server to."""
        job, config = self._job, self._job.parsed()
        method = get_method(config.method.name)
        entitled = self._kit.roster.with_name(COORDINATOR)
        public = read_entitled(entitled, method, job.public(choose_device(config.device)))
        method.releases(config.method, config.training, public)  # raises what the edges forbid
        return Setup(config=config, method=method, public=public, policy=job.policy())

    def _open_folder(self, setup: Setup) -> RunFolder:
        """Return the run's folder, new or where an earlier submission left it."""
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
        if folder.config().hash != setup.config.hash:
            raise RunFolderError(f"{path.name}: a run of another config")
        return folder

    def _enrol_secure(self, setup: Setup) -> Secure | None:
        settings = setup.config.privacy.secure_aggregation
        if settings is None:
            return None
        roster = read_roster(self._kit.roster, self._kit.root, self._job.sites)
        return Secure(settings, setup.config.hash, roster)

    def _start_engine(
        self, setup: Setup, folder: RunFolder, attempt: int, secure: Secure | None
    ) -> Engine:
        settings = setup.config.engine
        courier = Courier(
            self._job_id,
            self._job.sites,
            self._kit.signer,
            self._kit.root,
            self._send,
            self._ping,
            settings.timeout,
            settings.patience,
            self._tell_away,
        )
        attempts = (folder.path / "attempts.jsonl").read_text().splitlines()
        after_round = json.loads(attempts[-1])["after_round"]
        about = (attempt, after_round, settings.start_within)
        self._engine = Flare(self._job, courier, *about, Standings(folder.path))
        return self._engine
