"""The commands of docs/howto/audit.md and of the example run; the format is as documented."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import runpy
import shlex
import struct
import zlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app

HERE = Path.cwd()
SMALL = {
    "run": ["data.csbm.num_nodes=150", "training.rounds=5", "output.transcript_every=1"],
    "audit": ["whitened_links", "training_labels", "promises"],
}


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", Path(page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def made_small(arguments: list[str]) -> list[str]:
    """The documented command on less data: what it prints changes, what it takes does not."""
    flag = "--set" if arguments[0] == "run" else "--only"
    added = [part for value in SMALL[arguments[0]] for part in (flag, value)]
    return [*arguments, *added, *(["--trials", "1000"] if arguments[0] == "audit" else [])]


def expanded(arguments: list[str]) -> list[str]:
    return [str(next(iter(Path().glob(part)))) if "*" in part else part for part in arguments]


def test_the_way_from_run_to_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = commands("docs/howto/audit.md")[:4]  # the bank below has a test of its own
    assert [line[:2] for line in documented] == [["securefg", "run"], ["securefg", "audit"]] * 2
    (tmp_path / "configs").symlink_to(HERE / "configs")
    monkeypatch.chdir(tmp_path)
    for line in documented:
        result = CliRunner().invoke(app, expanded(made_small(line[1:])))
        assert result.exit_code == 0, result.output
    plain, noised = (
        {f["attack"]: f["verdict"] for f in json.loads(path.read_text())["findings"]}
        for path in sorted(Path("runs").glob("*/audit/findings.json"), reverse=True)
    )
    assert plain["whitened_links"] == "LEAK"
    assert noised["whitened_links"] != "LEAK"
    assert "mechanism_canary" in noised


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, str]]]:
    """The example's commands, each with its exit code and what it printed."""
    root = tmp_path_factory.mktemp("examples")
    (root / "examples").symlink_to(HERE / "examples")
    lines = commands("examples/fedavg_numpy/README.md")
    command_results = []
    with contextlib.chdir(root):
        for program, *arguments in lines:
            if program == "python":
                runpy.run_path(arguments[0])["main"](arguments[1:])
                command_results.append((0, ""))
                continue
            done = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
            command_results.append((done.exit_code, done.output))
    return root, command_results


def test_the_example_leaks_then_keeps_and_breaks_its_promise(
    examples: tuple[Path, list[tuple[int, str]]],
) -> None:
    _, command_results = examples
    assert [code for code, _ in command_results] == [0, 0, 0, 0, 0, 1]
    page = Path("examples/fedavg_numpy/README.md").read_text()
    screens = re.findall(r"```\n\n((?:    .+\n)+)", page)
    assert len(screens) == 3
    for screen, (_, printed) in zip(screens, command_results[1::2], strict=True):
        lines = [line.strip() for line in printed.splitlines()]
        missing = [line for line in screen.splitlines() if line.strip() not in lines]
        assert missing == [], printed


def test_the_example_page_has_the_figures_of_its_findings(
    examples: tuple[Path, list[tuple[int, str]]],
) -> None:
    stored = json.loads((examples[0] / "examples-out/noised/audit/findings.json").read_text())
    findings_by_attack = {one["attack"]: one for one in stored["findings"]}
    page = " ".join(Path("examples/fedavg_numpy/README.md").read_text().split())
    bound, claimed = (
        findings_by_attack["claim_noise"][f"epsilon_{kind}"] for kind in ("lower", "claimed")
    )
    assert f"lower bound is epsilon {bound:.2f}, and {claimed:.2f} is claimed" in page
    gain = findings_by_attack["first_layer_samples"]["gain"]
    words = f"{gain['value']:+.3f} ({gain['low']:+.3f} to {gain['high']:+.3f})"
    assert f"The guess at samples gains {words}, and +0.642 without the noise" in page
    assert (
        "with the defence off it gains +0.642"
        in findings_by_attack["first_layer_samples"]["because"]
    )


def test_the_documented_layout_is_all_that_a_reader_needs(
    examples: tuple[Path, list[tuple[int, str]]],
) -> None:
    folder = examples[0] / "examples-out" / "plain"
    data = (folder / "transcript" / "messages.bin").read_bytes()
    link, offset = hashlib.sha256(b"securefg log 2\ntranscript").hexdigest(), 0
    kinds = []
    while offset < len(data):
        magic, head_length, body_length, checksum = struct.unpack_from("<4sIQI", data, offset)
        start = offset + 20
        head, body = data[start : start + head_length], data[start + head_length :][:body_length]
        assert magic == b"SFGT"
        assert zlib.crc32(head + body) == checksum
        header = json.loads(head)
        claimed = header.pop("link")
        covered = head[: head.rindex(b',"link":"')] + b"\n"
        link = hashlib.sha256(link.encode() + covered + body).hexdigest()
        assert claimed == link
        kinds.append(header["kind"])
        offset = start + head_length + body_length
    assert kinds == (["fedavg.Model"] + ["fedavg.Update"] * 10) * 5
    assert f"chain: {link}" in (folder / "foreign.yaml").read_text()
    page = Path("docs/reference/transcript_format.md").read_text()
    assert [key for key in (*header, "link") if f"`{key}`" not in page] == []
