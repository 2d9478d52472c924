"""A whole deployment on this machine: kits, a server and a few sites, one submission, its end.

FOLDER/kits     as `securefg deploy provision` makes them, with the data dealt out
FOLDER/logs     what the processes print, a file per party
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from securefg.flare.admin import Admin, log_in
from securefg.flare.kits import Kits
from securefg.flare.local import LocalProcesses, end_leftovers, free_port
from securefg.flare.overview import Overview
from securefg.flare.provisioning import dealt_out, review_kit
from securefg.foundation.errors import ConfigError
from securefg.settings.config import RunConfig
from securefg.site.policy import POLICY_FILE, SitePolicy, write_policy

SERVER: Final = "localhost"
LOOK_SECONDS: Final = 1.0


def make_rehearsal(folder: Path, config: RunConfig, num_sites: int, any_floor: bool) -> Kits:
    """Make the kits of a rehearsal. Raise `ConfigError` where a site's floor refuses the plan.

    any_floor  let every site take part in everything: for made data alone
    """
    names = [f"site-{number + 1}" for number in range(num_sites)]
    kits = dealt_out(folder / "kits", config, SERVER, free_port(), names)
    for name in names:
        if any_floor:
            path = kits.home(name) / POLICY_FILE
            path.unlink()
            write_policy(path, SitePolicy.everything_goes())
        elif (refusal := review_kit(kits.site(name))[1]) is not None:
            shutil.rmtree(folder)
            raise ConfigError(
                f"{name}: the floor of a new kit refuses this plan: {refusal}; change the plan, or "
                "rehearse with --any-floor"
            )
    return kits


@contextmanager
def running_parties(kits: Kits, sites: list[str], within: float) -> Iterator[Admin]:
    """Start the server and these sites; yield a session with the server; end them all."""
    logs = kits.path.parent / "logs"
    end_leftovers(logs)
    with LocalProcesses(kits, logs) as processes:
        processes.start_server()
        for site in sites:
            processes.start_site(site)
        with log_in(kits.admin, within) as admin:
            yield admin


def follow_job(
    admin: Admin,
    job_id: str,
    show: Callable[[Overview], None],
    is_stop_wanted: Callable[[], bool],
) -> str:
    """Show the run until its job ends; pass on a wish to stop. Return FLARE's word for the end."""
    asked = False
    while not (state := admin.status(job_id)).startswith("FINISHED"):
        show(admin.show_status())
        if is_stop_wanted() and not asked:
            asked = admin.stop_run(job_id)
        time.sleep(LOOK_SECONDS)
    show(admin.show_status())
    return state
