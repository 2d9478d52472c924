"""A kit's settings are securefg's own: whoever hands it over adds nothing that FLARE would run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from securefg.flare.guard.modes import mode_problems
from securefg.flare.guard.settings import check_settings, settle, strange_settings
from securefg.flare.posture import inspect_posture
from securefg.foundation.errors import ConfigError
from securefg.site.plan import PLAN_FILE
from tests.unit.flare.federation_world import SITES, certificates

RUNS = {"args": ["touch", "ran"]}


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    shutil.copytree(certificates(), tmp_path / "kits")
    plan = json.dumps({"server": "localhost", "sites": {site: {} for site in SITES}, "run": "r"})
    for party in ("localhost", *SITES):
        (tmp_path / "kits" / party / "local" / "securefg" / PLAN_FILE).write_text(plan)
    return tmp_path / "kits"


def test_kits_come_without_anything_that_starts_flare_without_the_guard(kits: Path) -> None:
    assert [path for path in kits.rglob("*") if path.suffix in (".sh", ".ipynb", ".default")] == [
        kits / "admin@securefg.local" / "local" / "resources.json.default"
    ]
    for party in ("localhost", *SITES):
        settle(kits / party)
        check_settings(kits / party)


def edited(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def edit(kit: Path) -> None:
        content = json.loads((kit / name).read_text())
        change(content)
        (kit / name).write_text(json.dumps(content))

    return edit


def added(name: str, content: str = "{}") -> Callable[[Path], None]:
    def add(kit: Path) -> None:
        (kit / name).parent.mkdir(parents=True, exist_ok=True)
        (kit / name).write_text(content)

    return add


def _component(content: Any) -> None:
    content["components"].append({"id": "x", "path": "subprocess.Popen", "args": RUNS})


def _twice(kit: Path) -> None:
    path = kit / "local" / "resources.json"
    path.write_text(path.read_text().replace("{", '{"components": [], ', 1))


HOSTILE = {
    "a class of the sender's": edited("local/resources.json", _component),
    "another launcher": edited(
        "local/resources.json",
        lambda c: c["components"][-1].update(path="nvflare.app_common.job_launcher.x.Y"),
    ),
    "a key twice": _twice,
    "logs are a call": edited(
        "local/log_config.json",
        lambda c: c["formatters"]["baseFormatter"].update({"()": "os.system"}),
    ),
    "rights": edited(
        "local/authorization.json",
        lambda c: c["permissions"]["project_admin"].update(byoc="any"),
    ),
    "ports": edited("local/comm_config.json", lambda c: c.update(allow_adhoc_conns=True)),
    "an agent": edited("startup/fed_client.json", lambda c: c.update(overseer_agent=RUNS)),
    "unsigned jobs": edited("startup/fed_client.json", lambda c: c.pop("require_signed_jobs")),
    "another name": edited("startup/fed_client.json", lambda c: c["client"].update(fqsn="x -m y")),
    "code": added("local/custom/evil.py", "open('ran', 'w')"),
    "filters": added("local/privacy.json"),
    "settings under another name": added("startup/fed_client.conf"),
    "a script": added("startup/start.sh"),
    "no plan": lambda kit: (kit / "local" / "securefg" / PLAN_FILE).unlink(),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_kit_that_was_changed_is_not_started_and_the_check_says_so(how: str, kits: Path) -> None:
    kit = kits / "site-1"
    HOSTILE[how](kit)
    with pytest.raises(ConfigError):
        check_settings(kit)
    (line,) = [line for line in inspect_posture(kit) if line.what == "settings"]
    assert line.bad


def test_a_servers_kit_keeps_its_jobs_where_it_lies(kits: Path) -> None:
    kit = kits / "localhost"
    assert strange_settings(kit) == []
    with pytest.raises(ConfigError, match=r"resources\.json"):
        check_settings(kit)  # it was never started here
    settle(kit)
    check_settings(kit)
    moved = kit.rename(kits / "moved")
    with pytest.raises(ConfigError, match=r"resources\.json"):
        check_settings(moved)
    settle(moved)
    check_settings(moved)


def test_a_home_outside_of_the_kit_is_the_owners_alone_too(kits: Path, tmp_path: Path) -> None:
    kit, elsewhere = kits / "site-1", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    (kit / "local" / "securefg" / "site.json").write_text(json.dumps({"home": str(elsewhere)}))
    assert mode_problems(kit) == [f"{elsewhere}: mode 0777; wanted 0700"]
    elsewhere.chmod(0o700)
    assert mode_problems(kit) == []
    shutil.rmtree(kit / "securefg")
    (kit / "securefg").symlink_to("/usr")
    (kit / "local" / "securefg" / "site.json").write_text('{"home": "../../securefg"}')
    assert "/usr: mode 0755" in mode_problems(kit)[0] or "owned by" in mode_problems(kit)[0]


def test_a_process_imports_nothing_from_where_it_was_started(kits: Path, tmp_path: Path) -> None:
    """Anybody may put a file into a folder in which somebody starts a party."""
    from securefg.flare.party import command_for

    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "zipfile.py").write_text("open('ran', 'w')")
    (kits / "site-1").chmod(0o755)  # so it does not get far
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    root = Path(__file__).parents[3]
    completed = subprocess.run(
        [*command_for(kits / "site-1")],
        cwd=tmp_path / "here",
        env={**environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "not started" in completed.stderr
    assert not (tmp_path / "here" / "ran").exists()


def test_flare_without_the_guard_does_not_start_a_jobs_process() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", "from securefg.flare.launcher import SiteLauncher; SiteLauncher()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "started without securefg's guard" in completed.stderr
