"""An administrator's view of a deployment: how far the run is, and when a site was last heard.

The server's answer is checked here before it is shown or used: it is another party's word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from securefg.flare.guard.pulse import SILENT_SECONDS
from securefg.flare.progress import Progress, read_progress
from securefg.foundation.errors import RunFailed
from securefg.foundation.quoting import shown
from securefg.foundation.units import epsilon_text, seconds_text

SHOW_STATUS: Final = "securefg_status"
STOP_RUN: Final = "securefg_stop"
ANSWER: Final = "securefg"
"""The commands of `guard/operating.py`, and the key of their answers."""
LOST: Final = "LOST"
"""The state of a job that FLARE calls running and that ended with the server's process."""
ABORTED: Final = "FINISHED:ABORTED"
"""FLARE's word for a job that the administrator ended in its round."""


@dataclass(frozen=True)
class Overview:
    """A deployment as its server tells it.

    silence   seconds since each site was heard, or None where the site never was
    progress  None where the run has not begun
    jobs      FLARE's ids of the jobs that the server's process runs
    """

    silence: Mapping[str, float | None]
    progress: Progress | None
    jobs: tuple[str, ...] = ()

    def dead_sites(self) -> list[str]:
        """Return the sites that were heard once and have been silent for too long."""
        heard = {site: seconds for site, seconds in self.silence.items() if seconds is not None}
        return sorted(site for site, seconds in heard.items() if is_dead(seconds))


def is_dead(silence: float | None) -> bool:
    """Return whether a site was silent for so long, or always, that it counts as dead."""
    return silence is None or silence > SILENT_SECONDS


def read_overview(status_answer: Mapping[str, Any]) -> Overview:
    """Return the server's answer, checked. Raise `RunFailed` where it is none."""
    silence = status_answer.get("silence")
    if not isinstance(silence, dict) or not all(map(_is_silence, silence.values())):
        raise RunFailed(f"the server's status: silence: found {shown(silence)}; expected seconds")
    jobs = status_answer.get("jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, str) for job in jobs):
        raise RunFailed(f"the server's status: jobs: found {shown(jobs)}; expected names")
    return Overview(silence, read_progress(status_answer.get("progress")), tuple(jobs))


def _is_silence(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and math.isfinite(value) and value >= 0)  # type: ignore[arg-type, operator]


def describe_deployment(overview: Overview, sites: list[str], job: str) -> Iterator[str]:
    """Yield the lines of `deploy status`: the run, then a line per site."""
    yield describe_run(overview.progress, job)
    progress = overview.progress
    if progress is not None and progress.epsilon:
        spent = [f"{epsilon_text(value)} per {unit}" for unit, value in progress.epsilon.items()]
        yield f"epsilon spent: {', '.join(spent)}"
    for site in sites:
        yield describe_site(site, overview)


def describe_run(progress: Progress | None, job: str) -> str:
    """Return one line about the run; `job` is FLARE's own word for it."""
    if progress is None:
        return f"run: not begun (job {job})"
    whole = f"round {progress.round} of {progress.rounds}"
    if progress.state == "finished":
        return f"run: finished after {whole}: {progress.reason} (job {job})"
    if progress.is_over:
        return f"run: {progress.state} after {whole}: {progress.reason} (job {job})"
    if job == ABORTED:
        return f"run: ended at once, as asked, after {whole} (job {job})"
    if job.startswith("FINISHED") or job == LOST:
        return f"run: ended without a word after {whole} (job {job})"
    left = progress.seconds_left
    time_left = "time left not known yet" if left is None else f"at most {seconds_text(left)} left"
    return f"run: {progress.state}, {whole} done, {time_left} (job {job})"


def describe_site(site: str, overview: Overview) -> str:
    """Return one line about a site: its last sign of life, and whether the run lacks it."""
    silence = overview.silence.get(site)
    if silence is None:
        words = "not connected"
    elif is_dead(silence):
        words = f"DEAD, no sign of life for {seconds_text(silence)}"
    else:
        words = f"connected, last sign of life {seconds_text(silence)} ago"
    away = {} if overview.progress is None else overview.progress.away
    return f"{site}: {words}" + (f"; out of the run: {away[site]}" if site in away else "")
