"""What FLARE can do when asked was reviewed, command by command: a new one must be looked at."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("nvflare")

OF_SITES = {
    "info.reset_errors",
    "info.show_errors",
    "info.show_stats",
    "resource_manager.report_resources",
    "scheduler.cancel_resource",
    "scheduler.check_resource",
    "sys.configure_site_log",
    "sys.info",
    "sys.report_env",
    "sys.report_version",
    "sys.shell",
    "train.abort",
    "train.abort_task",
    "train.check_status",
    "train.configure_job_log",
    "train.delete_run",
    "train.deploy",
    "train.get_scopes",
    "train.notify_job_status",
    "train.restart",
    "train.shutdown",
    "train.start_job",
}
LEFT = {
    "scheduler.cancel_resource",
    "scheduler.check_resource",
    "train.abort",
    "train.deploy",
    "train.notify_job_status",
    "train.start_job",
}
ASK = """
import sys
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors as C
from nvflare.private.fed.server.server_cmd_modules import ServerCommandModules as S
from nvflare.fuel.hci.server.reg import ServerCommandRegister
from pathlib import Path
from securefg.flare.guard.commands import strip_server, strip_site
from securefg.flare.guard.operating import offer_commands
from securefg.flare.guard.pulse import Pulse
if sys.argv[1] == "stripped":
    strip_site(lambda *job: None)
    offer_commands(Path("kit"), Pulse())
    strip_server()
register = ServerCommandRegister(None)
for module in S.cmd_modules:
    register.register_module(module)
print(*sorted(topic for one in C.request_processors for topic in one.get_topics()))
print(*sorted(name for scope in register.scopes.values() for name in scope.entries))
"""


def commands(how: str) -> tuple[set[str], set[str]]:
    """Of a site and of the server, in a process of their own: the lists are FLARE's globals."""
    said = subprocess.run(
        [sys.executable, "-c", ASK, how], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return set(said[-2].split()), set(said[-1].split())


def test_flare_has_the_commands_that_were_reviewed_and_a_site_keeps_six() -> None:
    before, of_server = commands("as it is")
    assert before == OF_SITES
    assert {"cat", "ls", "grep", "shutdown", "delete_job", "clone_job"} <= of_server
    assert len(of_server) == 43
    after, of_server = commands("stripped")
    assert after == LEFT
    assert of_server == {
        "abort_job",
        "check_status",
        "download_job",
        "get_job_meta",
        "list_jobs",
        "securefg_status",
        "securefg_stop",
        "submit_job",
    }
