"""NVIDIA FLARE's POC mode: a server and sites as processes on this machine, over TLS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ADMIN: Final = "admin@nvidia.com"
START_SECONDS: Final = 240.0
POLL_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Poc:
    """A server and sites in a folder.

    homes    by site, the folder with its floor and books; none where nothing protects the sites
    clip, noise   of the sites' own filter
    """

    out: Path
    sites: int
    homes: dict[str, Path]
    clip: float
    noise: float

    def run(self, job: Path, is_over: Callable[[], bool], seconds: float) -> None:
        """Run the exported job until it is over, for so long at most, and end all processes."""
        self._call("poc", "prepare", "-n", str(self.sites), "--force")
        for name, home in self.homes.items():
            (kit,) = (self.out / "poc").glob(f"*/prod_00/{name}")
            self._write_policy(kit / "local", home)
        with self._started():
            wait_until(self._has_all_sites, START_SECONDS)
            self._call("job", "submit", "-j", str(job))
            wait_until(is_over, seconds)

    def _write_policy(self, local: Path, home: Path) -> None:
        """Write the site's own policy, which no job can avoid (docs/howto/flare_filter.md)."""
        settings = {"home": str(home), "clip_l2": self.clip, "noise_multiplier": self.noise}
        filters = "securefg.flare.filters"
        scope = {
            "name": "gated",
            "task_data_filters": [{"path": f"{filters}.ModelReceived", "direction": "in"}],
            "task_result_filters": [
                {"path": f"{filters}.SecurefgFilter", "direction": "out", "args": settings}
            ],
        }
        policy = {"format_version": 2, "scopes": [scope], "default_scope": "gated"}
        (local / "privacy.json").write_text(json.dumps(policy))
        resources = json.loads((local / "resources.json.default").read_text())
        resources["allow_log_streaming"] = False
        kept = [part for part in resources["components"] if part["id"] != "site_log_streamer"]
        resources["components"] = kept
        (local / "resources.json").write_text(json.dumps(resources))

    @contextmanager
    def _started(self) -> Iterator[None]:
        command = [self._nvflare, "poc", "start", "-ex", ADMIN]
        with (self.out / "poc.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self._env, cwd=self.out, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield
        finally:
            stop = [self._nvflare, "poc", "stop"]
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    stop, env=self._env, cwd=self.out, capture_output=True, timeout=90, check=False
                )
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _has_all_sites(self) -> bool:
        status = self._call("system", "status", "--format", "json")
        return status.count("last_conn") >= self.sites

    @property
    def _nvflare(self) -> str:
        return str(Path(sys.executable).with_name("nvflare"))

    @property
    def _env(self) -> dict[str, Any]:
        return {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HOME": str(self.out),
            "NVFLARE_POC_WORKSPACE": str(self.out / "poc"),
        }

    def _call(self, *words: str) -> str:
        done = subprocess.run(
            [self._nvflare, *words],
            env=self._env,
            cwd=self.out,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            said = done.stdout[-400:] + done.stderr[-400:]
            raise RuntimeError(f"nvflare {' '.join(words)}: {said}")
        return done.stdout


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    """Return when it is so. Raise after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            if is_so():
                return
        time.sleep(POLL_SECONDS)
    raise SystemExit(f"not within {seconds:g} s; see poc.log")
