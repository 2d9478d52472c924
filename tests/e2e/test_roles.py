"""The page of every role is gone from top to bottom, as it stands but for smaller sizes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from securefg.flare.local import free_port
from securefg.runs.folder import RunFolder
from tests.e2e.shell_lines import carried_out, words_of
from tests.e2e.test_flare_docs import end, said_by
from tests.unit.data.test_drafting import messy_banks

ROOT = Path.cwd()
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
SMALLER = {
    "examples/banks/generate.py": ("--customers", "600", "--rings", "8"),
    "examples/hospitals/generate.py": ("--patients", "1500"),
}


def lines_of(page: str) -> list[str]:
    text = (ROOT / "docs" / "tutorials" / page).read_text()
    lines = (line.strip() for block in BLOCK.findall(text) for line in block.splitlines())
    return [line for line in lines if line]


def carry_out(page: str) -> dict[str, str]:
    """What every line prints; a line that fails fails the test."""
    printed_by_line = {}
    for line in lines_of(page):
        if line.startswith("cp "):
            *sources, target = shlex.split(line)[1:]
            for source in sources:
                shutil.copy(source, target)
        elif line.startswith("securefg curve"):
            continue  # drawn by test_curve.py
        else:
            words = words_of(line)
            code, printed = carried_out([*words, *SMALLER.get(words[1], ())])
            assert code == 0, (line, printed[-800:])
            printed_by_line[line] = printed
    return printed_by_line


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["bank.md", "hospital.md", "researcher.md", "data_protection_officer.md"]
)
def test_page_of_a_role_is_gone_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("configs", "examples"):
        Path(name).symlink_to(ROOT / name)
    said = carry_out(page)
    assert len(said) >= 8
    assert not any("Traceback" in printed for printed in said.values())
    if page != "researcher.md":
        assert next(Path("runs").glob("private-s0-*/dpo.html")).stat().st_size > 10_000


@pytest.mark.slow
def test_own_messy_tables_of_two_banks_reach_a_signed_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    messy_banks(Path("banks"))
    page = (ROOT / "docs" / "tutorials" / "bank.md").read_text()
    lines = re.findall(r"^    (\w.*)", page.partition("## Practise")[0], re.M)
    assert 5 <= len(lines) <= 10
    for line in lines:
        if line.startswith("cp "):
            shutil.copy(*shlex.split(line)[1:])
            continue
        code, printed = carried_out(words_of(line))
        assert code == (2 if "--draft" in line else 0), (line, printed[-800:])
    assert "dpo.html ok signed" in " ".join(printed.split())


@pytest.mark.slow
def test_page_of_an_operator_is_gone_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvflare")
    monkeypatch.chdir(tmp_path)
    Path("configs").symlink_to(ROOT / "configs")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started: list[subprocess.Popen[bytes]] = []
    printed_by_line: dict[str, str] = {}
    port = str(free_port())
    try:
        for line in lines_of("operator.md"):
            words = shlex.split(line.removesuffix("&").replace("8012", port))
            if line.endswith("&"):
                command = [sys.executable, "-m", "securefg.cli.main", *words[1:]]
                with Path("log").open("ab") as log:
                    started.append(
                        subprocess.Popen(
                            command, env=environment, stdout=log, stderr=log, start_new_session=True
                        )
                    )
            else:
                printed_by_line[line] = said_by(words, environment)
    finally:
        end(started)
    assert "the floor allows it" in printed_by_line["securefg deploy review kits/north"]
    assert RunFolder(next(Path("fetched").iterdir())).summary().rounds == 30
    assert "north" in Path("sites.html").read_text()
