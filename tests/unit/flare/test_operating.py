"""The two commands of ours at the server: for the administrator alone, without a path."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nvflare")
from nvflare.fuel.hci.conn import Connection
from nvflare.fuel.hci.server.authz import PreAuthzReturnCode
from nvflare.fuel.hci.server.constants import ConnProps

from securefg.flare.guard.operating import OperatingCommands
from securefg.flare.guard.pulse import Pulse
from securefg.flare.overview import ANSWER, SHOW_STATUS, STOP_RUN, read_overview
from securefg.site.plan import plan_path

JOB = "0a1b2c3d-0000-1111-2222-0a1b2c3d4e5f"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    path = plan_path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"run": "banks", "sites": {"bank-a": {}, "bank-b": {}}}))
    return tmp_path


def private_of(kit: Path) -> Path:
    folder = kit / "securefg_runs" / "banks" / "private"
    folder.mkdir(parents=True)
    return folder


def asked(kit: Path, pulse: Pulse, *words: str) -> dict[str, Any]:
    engine = SimpleNamespace(job_runner=SimpleNamespace(running_jobs={JOB: None}))
    commands, conn = OperatingCommands(kit, pulse), Connection(app_ctx=engine)
    specs = {spec.name: spec for spec in commands.get_spec().cmd_specs}
    specs[words[0]].handler_func(conn, list(words))
    found: dict[str, Any] = json.loads(conn.buffer.encode())["meta"][ANSWER]
    return found


def test_status_command_tells_sites_of_plan_alone(kit: Path) -> None:
    pulse = Pulse()
    for name in ("bank-a", "stranger"):
        pulse.hear_site(name, name)
    deployment_overview = read_overview(asked(kit, pulse, SHOW_STATUS))
    assert set(deployment_overview.silence) == {"bank-a", "bank-b"}
    assert deployment_overview.silence["bank-b"] is None
    assert deployment_overview.progress is None
    assert deployment_overview.jobs == (JOB,)


def test_status_command_hands_over_progress(kit: Path) -> None:
    told = {"submission": 3, "state": "running", "rounds": 9, "round": 2}
    (private_of(kit) / "status.json").write_text(json.dumps(told))
    progress = read_overview(asked(kit, Pulse(), SHOW_STATUS)).progress
    assert progress is not None
    assert (progress.submission, progress.round) == (3, 2)


@pytest.mark.parametrize("word", ["", "../../startup", "/etc/passwd", JOB + "x"])
def test_stop_command_takes_no_path(kit: Path, word: str) -> None:
    folder = private_of(kit)
    assert asked(kit, Pulse(), STOP_RUN, word) == {"stops": False}
    assert list(folder.iterdir()) == []


def test_stop_command_leaves_private_file_with_job(kit: Path) -> None:
    assert asked(kit, Pulse(), STOP_RUN, JOB) == {"stops": False}  # the run has not begun
    folder = private_of(kit)
    assert asked(kit, Pulse(), STOP_RUN, JOB) == {"stops": True}
    assert (folder / "stop").read_text() == JOB
    assert (folder / "stop").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("role", ["", "lead", "member", "org_admin"])
def test_commands_other_roles_are_refused(kit: Path, role: str) -> None:
    for spec in OperatingCommands(kit, Pulse()).get_spec().cmd_specs:
        refused = spec.authz_func(Connection(props={ConnProps.USER_ROLE: role}), [spec.name])
        assert refused is PreAuthzReturnCode.ERROR
        admin = Connection(props={ConnProps.USER_ROLE: "project_admin"})
        assert spec.authz_func(admin, [spec.name]) is PreAuthzReturnCode.OK
