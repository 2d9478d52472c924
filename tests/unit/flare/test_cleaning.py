"""`deploy clean` lists what it removes, asks, and leaves keys, books and runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.deploy import app
from securefg.flare.cleaning import find_leftovers
from securefg.flare.processes import end_processes, find_processes
from securefg.foundation.errors import InputError

pytest.importorskip("nvflare")
JOB = "0a1b2c3d-0000-1111-2222-0a1b2c3d4e5f"
GOES = {f"{JOB}/log.txt", "console.log", "console.log.1", "log.txt", "jobs/a/meta", "transfer/x"}
STAYS = {
    "startup/client.key",
    "local/resources.json",
    "securefg/ledger.jsonl",
    "securefg/keys/host.keys",
    "securefg_runs/run/config.yaml",
    "visits.jsonl",
    "audit.log",
    "RUNBOOK.md",
    "my own notes.txt",
}


def fill(folder: Path, names: set[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def files_in(folder: Path) -> set[str]:
    return {x.relative_to(folder).as_posix() for x in folder.rglob("*") if x.is_file()}


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    folder = tmp_path / "kits"
    for kit in ("bank-a", "localhost"):
        fill(folder / kit, GOES | STAYS)
    fill(folder, {"federation_plan.json", "submissions.json", "job/meta.json"})
    return folder


def test_clean_kits_removes_traces_and_keeps_the_rest(kits: Path) -> None:
    done = CliRunner().invoke(app, ["clean", str(kits), "--yes"])
    assert done.exit_code == 0, done.output
    for kit in ("bank-a", "localhost"):
        assert files_in(kits / kit) == STAYS
    assert (kits / "submissions.json").is_file()
    assert not (kits / "job").exists()
    assert "nothing to remove" in CliRunner().invoke(app, ["clean", str(kits), "--yes"]).output


def test_clean_without_terminal_removes_nothing(kits: Path) -> None:
    before = files_in(kits)
    done = CliRunner().invoke(app, ["clean", str(kits / "bank-a")])
    assert isinstance(done.exception, InputError)
    assert "found no terminal to ask at; expected --yes" in str(done.exception)
    assert "console.log" in done.output  # the list comes before the question
    assert files_in(kits) == before


def test_clean_all_removes_folder_with_keys(kits: Path) -> None:
    done = CliRunner().invoke(app, ["clean", str(kits / "bank-a"), "--all", "--yes"])
    assert done.exit_code == 0
    assert "KEYS and BOOKS" in done.output
    assert not (kits / "bank-a").exists()
    assert (kits / "localhost").exists()


def test_clean_other_folder_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"jobs/a", "log.txt"})
    with pytest.raises(InputError, match="found no kit; expected a party's folder"):
        find_leftovers(tmp_path, everything=True)


def test_clean_link_goes_and_its_target_stays(kits: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    fill(elsewhere, {"precious"})
    (kits / "bank-a" / "snapshots").symlink_to(elsewhere)
    assert CliRunner().invoke(app, ["clean", str(kits / "bank-a"), "--yes"]).exit_code == 0
    assert not (kits / "bank-a" / "snapshots").is_symlink()
    assert files_in(elsewhere) == {"precious"}


@pytest.fixture
def party(kits: Path) -> subprocess.Popen[bytes]:
    """A process whose command line is that of a site, and which does nothing."""
    sleep = "import time; time.sleep(60)"
    kit = str((kits / "bank-a").resolve())
    command = [sys.executable, "-c", sleep, "securefg.flare.guard.process", "site", "-m", kit]
    process = subprocess.Popen(command)
    end = time.monotonic() + 20
    while process.pid not in find_processes(kits / "bank-a"):
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


def test_clean_running_party_is_refused(kits: Path, party: subprocess.Popen[bytes]) -> None:
    try:
        with pytest.raises(InputError, match="found running: bank-a"):
            find_leftovers(kits, everything=False)
        assert find_leftovers(kits / "localhost", everything=False)
    finally:
        party.kill()
        party.wait()


def test_stop_kit_ends_its_processes_alone(kits: Path, party: subprocess.Popen[bytes]) -> None:
    assert end_processes(kits / "localhost") == 0
    assert party.poll() is None
    done = CliRunner().invoke(app, ["stop", str(kits / "bank-a")])
    assert party.wait(20) != 0
    assert done.output == "bank-a: 1 processes ended\n"
