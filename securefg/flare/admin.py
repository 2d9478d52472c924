"""The admin's side: submit a job, ask how it does, fetch what it left, over FLARE's own session.

    python -m securefg.flare.admin KIT JOB SECONDS SITE ...

waits until all sites are connected, submits and prints the job's id. A local run asks for it so,
in a process of its own: FLARE's session leaves threads and sockets behind in whoever opens it.
Nothing heavy is imported here.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefg.flare.guard.doors import ADMINISTRATOR
from securefg.flare.guard.supported import require_supported
from securefg.flare.overview import ANSWER, SHOW_STATUS, STOP_RUN, Overview, is_dead, read_overview
from securefg.foundation.errors import ConfigError, RunFailed
from securefg.foundation.quoting import shown

ADMIN = ADMINISTRATOR


def require_flare() -> None:
    """Raise `ConfigError` unless an NVIDIA FLARE that the guard knows is installed."""
    if importlib.util.find_spec("nvflare") is None:
        raise ConfigError(
            "engine.name: flare wants NVIDIA FLARE, which is not installed; "
            "pip install 'securefg[flare]'"
        )
    require_supported()


@dataclass(frozen=True)
class Admin:
    """A logged-in session; FLARE's chatter on the terminal is swallowed.

    kit  the administrator's own folder, into which results are fetched
    """

    _session: Any
    kit: Path

    def show_status(self) -> Overview:
        """Return how the run does, and when each site was last heard."""
        return read_overview(self._run_command(SHOW_STATUS))

    def stop_run(self, job_id: str) -> bool:
        """Have the run end after its round. Return False where it has not begun."""
        return self._run_command(f"{STOP_RUN} {job_id}").get("stops") is True

    def abort_job(self, job_id: str) -> None:
        """Have FLARE end the job's processes at the server and at all sites."""
        self._ask_session("abort_job", job_id)

    def await_sites(self, sites: list[str], seconds: float) -> None:
        """Wait until these sites are connected. Raise `RunFailed` after so many seconds.

        A site is connected once FLARE registered it, and while it gives signs of life.
        """
        end = time.monotonic() + seconds
        while missing := sorted(set(sites) - self._connected_sites()):
            if time.monotonic() > end:
                raise RunFailed(f"not connected after {seconds:g} s: {', '.join(missing)}")
            time.sleep(0.3)

    def _connected_sites(self) -> set[str]:
        registered = {client.name for client in self._ask_session("get_system_info").client_info}
        try:
            silence = self.show_status().silence
        except RunFailed:  # a server without the guard; the sites judge every job by themselves
            return registered
        return {name for name in registered if not is_dead(silence.get(name))}

    def submit(self, job: Path) -> str:
        """Submit the job's folder and return FLARE's id of the job."""
        return str(self._ask_session("submit_job", str(job.resolve())))

    def status(self, job_id: str) -> str:
        """Return FLARE's word for how the job does."""
        return str(self._ask_session("get_job_meta", job_id)["status"])

    def await_end(self, job_id: str, seconds: float) -> str:
        """The job's status, when it has ended or the seconds are over."""
        end = time.monotonic() + seconds
        while not (state := self.status(job_id)).startswith("FINISHED") and time.monotonic() < end:
            time.sleep(1.0)
        return state

    def download(self, job_id: str) -> Path:
        """Fetch the job's result into the kit and return its folder."""
        result_path = self._ask_session("download_job_result", job_id)
        if not isinstance(result_path, str) or not Path(result_path).resolve().is_relative_to(
            self.kit.resolve()
        ):
            raise RunFailed(
                f"the FLARE server says that its result lies in {shown(result_path)}: not taken"
            )
        return Path(result_path)

    def _run_command(self, command: str) -> dict[str, Any]:
        """Return the server's answer to a command of ours."""
        told = self._ask_session("_do_command", command)
        found = told.get("meta", {}).get(ANSWER) if isinstance(told, dict) else None
        if not isinstance(found, dict):
            raise RunFailed(f"the FLARE server: {command}: found {shown(told)}; expected an answer")
        return found

    def _ask_session(self, name: str, *arguments: Any) -> Any:
        with redirect_stdout(io.StringIO()):
            try:
                return getattr(self._session, name)(*arguments)
            except Exception as error:
                raise RunFailed(f"the FLARE server: {name}: {error}") from error


@contextmanager
def log_in(kit: Path, within: float = 30.0) -> Iterator[Admin]:
    """A session with the server that the admin's kit names; waits until there is one."""
    require_flare()
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    from securefg.flare.guard.process import guard

    guard("admin", kit)
    end, quiet = time.monotonic() + within, logging.NullHandler()
    logging.getLogger().addHandler(quiet)  # else FLARE's warnings go to the terminal
    session, patience = None, 2.0
    try:
        while session is None:
            try:
                with redirect_stdout(io.StringIO()):
                    session = new_secure_session(ADMIN, str(kit.resolve()), timeout=patience)
            except Exception as error:
                if time.monotonic() > end:
                    raise RunFailed(f"no FLARE server answers: {error}") from error
                patience = min(2 * patience, 16.0)  # a busy machine's server answers, but late
                time.sleep(0.2)
        yield Admin(session, kit)
    finally:
        if session is not None:
            session.close()
        logging.getLogger().removeHandler(quiet)


def main(kit: str, job: str, seconds: str, *sites: str) -> int:
    """Wait for the sites, submit and print the job's id. Return the exit code."""
    try:
        with log_in(Path(kit), float(seconds)) as admin:
            admin.await_sites(list(sites), float(seconds))
            sys.stdout.write(admin.submit(Path(job)) + "\n")
    except RunFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
