"""A job reaches a site's disk only if the site's own plan makes the same files."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from securefg.flare.app_files import JOB_FILE, app_files, check_deployed
from securefg.site.plan import OtherJob, check_planned

ID = "178be9d9-160c-460b-9ba8-367fb43f4077"
PLAN: dict[str, Any] = {
    "run": "run-s0-abc",
    "submission": 1,
    "server": "localhost",
    "sites": {"bank-a": {"client-0": "0"}},
    "config": {"training": {"rounds": 4}},
}


def packed(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return held.getvalue()


def app(job: dict[str, Any], **more: bytes) -> bytes:
    return packed({**app_files(job), ".__nvfl_sig.json": b"{}", **more})


def test_the_planned_job_is_taken_under_any_number_of_submission() -> None:
    check_deployed(PLAN, ID, app(PLAN), {})
    check_deployed(PLAN, ID, app({**PLAN, "submission": 4711}), {})


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"training": {"rounds": 40}}},
        {"sites": {"bank-a": {"client-0": "0", "client-1": "1"}}},
        {"run": "../../outside"},
        {"run_folder": "/tmp/outside"},
        {"submission": -1},
        {"submission": True},
        {"submission": "1"},
    ],
)
def test_another_job_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OtherJob):
        check_deployed(PLAN, ID, app({**PLAN, **changes}), {})


@pytest.mark.parametrize(
    "name", ["custom/evil.py", "../evil.py", "config/evil.json", "/etc/x", "custom/", "evil.pth"]
)
def test_a_job_that_brings_more_than_the_plan_is_refused(name: str) -> None:
    with pytest.raises(OtherJob, match="in it"):
        check_deployed(
            PLAN, ID, packed({**app_files(PLAN), name: b"" if name[-1] == "/" else b"x"}), {}
        )


def test_code_named_in_the_jobs_settings_is_refused() -> None:
    files = app_files(PLAN)
    other = files["config/config_fed_client.json"].replace(b"securefg.flare.executor", b"os.path12")
    with pytest.raises(OtherJob, match="config_fed_client"):
        check_deployed(PLAN, ID, packed({**files, "config/config_fed_client.json": other}), {})


@pytest.mark.parametrize("job_id", ["../../securefg", "", "x", f"{ID}/..", None, 3])
def test_a_jobs_number_is_no_path(job_id: Any) -> None:
    with pytest.raises(OtherJob, match="wanted a random number"):
        check_deployed(PLAN, job_id, app(PLAN), {})


@pytest.mark.parametrize("key", ["launcher_spec", "resource_spec", "byoc"])
def test_a_job_cannot_choose_how_it_is_started(key: str) -> None:
    with pytest.raises(OtherJob, match=key):
        check_deployed(PLAN, ID, app(PLAN), {key: {"bank-a": {"docker": {"image": "evil"}}}})


def test_a_bomb_is_not_unpacked() -> None:
    files = {**app_files(PLAN), f"config/{JOB_FILE}": b"0" * 50_000_000}
    with pytest.raises(OtherJob, match="larger than the plan"):
        check_deployed(PLAN, ID, packed(files), {})


@pytest.mark.parametrize("content", [b"", b"PK", b"\x00" * 100, packed({})])
def test_nonsense_is_refused(content: bytes) -> None:
    with pytest.raises(OtherJob):
        check_deployed(PLAN, ID, content, {})


@pytest.mark.parametrize(("header", "flags"), [(b"PK\x01\x02", 8), (b"PK\x03\x04", 30 + 40)])
def test_a_job_that_is_encrypted_or_torn_is_another_job(header: bytes, flags: int) -> None:
    content = bytearray(app(PLAN))
    content[content.index(header) + flags] ^= 1
    with pytest.raises(OtherJob):
        check_deployed(PLAN, ID, bytes(content), {})


def test_a_job_process_compares_once_more() -> None:
    check_planned(PLAN, {**PLAN, "submission": 9})
    with pytest.raises(OtherJob, match="config differ"):
        check_planned(PLAN, {**PLAN, "config": {}})
    with pytest.raises(OtherJob, match="has_truth differ"):
        check_planned(PLAN, json.loads(json.dumps({**PLAN, "has_truth": True})))
