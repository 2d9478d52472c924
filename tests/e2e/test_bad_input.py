"""Bad input is answered in a line or two, with exit code 2, and nothing is written."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from securefg.cli import main as cli
from securefg.foundation.errors import CodecError
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from tests.small import config, tree


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(tree(tmp_path / "runs")))
    return path


def answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str]:
    """Exit code and what the user reads on standard error."""
    monkeypatch.setattr(sys, "argv", ["securefg", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    code = stop.value.code
    return (code if isinstance(code, int) else 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("training.roundz=3", "training.roundz: found an unknown key; expected rounds"),
        ("nonsense=3", "nonsense: found an unknown key; expected name, method, data"),
        ("method.hiden=3", "method.hiden: found an unknown key; expected name"),
        ("training.rounds=many", "training.rounds: found 'many'; expected a whole number"),
        (
            "training.rounds=0",
            "training.rounds: found 0; expected a whole number of at least 1",
        ),
        ("partition.shares=[0.5, 1.2]", "partition.shares.1: found 1.2; expected a number above 0"),
        ("partition.name=foo", "found 'foo'; expected shares, public_private, one_node"),
        (
            "privacy.noise_multiplier=-1",
            "noise_multiplier: found -1; expected a number above 0",
        ),
        ("privacy.mechanism=local_gaussian", "needs either noise_multiplier or target_epsilon"),
        (
            "privacy.field_rules={Update.foo: {mechanism: plain}}",
            "Update.foo: no such private field",
        ),
        ("data={name: corra}", "data.name: found 'corra'; expected cora, citeseer"),
        (
            "method={name: fedgll}",
            "method.name: found 'fedgll'; expected alone, best_alone, fedavg, fedgl, fed",
        ),
        ("device=gpu", "device: found 'gpu'; expected auto, cpu, cuda or cuda:N"),
        ("training", "expected KEY.KEY=VALUE"),
    ],
)
def test_a_bad_setting_is_named(
    override: str,
    wanted: str,
    config_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, text = answer(capsys, monkeypatch, "run", str(config_file), "--set", override)
    assert code == 2
    assert wanted in text
    assert len(text.strip().splitlines()) <= 2
    assert not (config_file.parent / "runs").exists()


def test_a_broken_data_folder_is_named_by_file_and_line(
    config_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = config_file.parent / "mine"
    folder.mkdir()
    (folder / "edges.csv").write_text("0,1\n1,2\n2,x\n")
    (folder / "features.csv").write_text("0,1,0\n1,0,1\n2,1,1\n")
    (folder / "labels.csv").write_text("0,0\n1,1\n2,0\n")
    override = f"data={{name: folder, folder: {folder}}}"
    code, text = answer(capsys, monkeypatch, "run", str(config_file), "--set", override)
    assert (code, "edges.csv, line 3" in text) == (2, True), text
    assert not (config_file.parent / "runs").exists()


def test_a_config_that_is_not_there_or_not_yaml_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(capsys, monkeypatch, "run", str(tmp_path / "no.yaml"))[0] == 2
    broken = tmp_path / "broken.yaml"
    broken.write_text("method: {name: fedgl\n")
    code, text = answer(capsys, monkeypatch, "run", str(broken))
    assert (code, "broken.yaml:2: found broken YAML" in text) == (2, True), text


def test_a_run_folder_that_exists_is_not_touched(
    config_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer(capsys, monkeypatch, "run", str(config_file), "--quiet")[0] == 0
    (run,) = (config_file.parent / "runs").iterdir()
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    code, text = answer(capsys, monkeypatch, "run", str(config_file))
    assert (code, f"{run} exists" in text, "--resume" in text) == (2, True, False), text
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    assert answer(capsys, monkeypatch, "run", str(config_file), "--quiet", "--fresh")[0] == 0
    code, text = answer(capsys, monkeypatch, "run", "--resume", str(run))
    assert (code, "the run has finished" in text) == (2, True), text


def interrupted(root: Path, *overrides: str) -> RunFolder:
    class StopAfterTwo(Silent):
        rounds = 0

        def round_done(self, report: RoundReport) -> None:
            self.rounds = report.round

        def stop_requested(self) -> bool:
            return self.rounds >= 2

    outcome = runner.start(config(root, *overrides), StopAfterTwo())
    assert outcome.summary is None
    return outcome.folder


def test_a_checkpoint_of_another_config_is_refused(
    config_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = interrupted(tmp_path / "a")
    other = ["--set", "seed=5", "--resume", str(run.path)]
    code, text = answer(capsys, monkeypatch, "run", str(config_file), *other)
    assert (code, "a run of another config" in text) == (2, True), text
    foreign = interrupted(tmp_path / "b", "seed=5")
    for checkpoints in (run.checkpoints, foreign.checkpoints):
        assert [path.name for path in checkpoints.iterdir()] == ["round-000002"]
    shutil.rmtree(run.checkpoints)
    shutil.copytree(foreign.checkpoints, run.checkpoints)
    code, text = answer(capsys, monkeypatch, "run", "--resume", str(run.path))
    assert (code, "a checkpoint of another config" in text) == (2, True), text


def test_a_config_changed_by_hand_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted(tmp_path)
    path = run.path / "config.yaml"
    path.write_text(path.read_text().replace("rounds: 4", "rounds: 9"))
    code, text = answer(capsys, monkeypatch, "run", "--resume", str(run.path))
    assert (code, "config.yaml was changed" in text) == (2, True), text


def test_a_transcript_cut_in_the_middle_loads_up_to_the_cut(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path)).folder
    whole = list(read_transcript(run.transcript))
    path = run.transcript / "messages.bin"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(UserWarning, match="cut off or damaged after byte"):
        readable = list(read_transcript(run.transcript))
    assert 0 < len(readable) < len(whole)
    assert readable == whole[: len(readable)]


def test_a_message_of_another_version_is_refused() -> None:
    framed = codec.frame(Envelope(1, 1, 1, "server", "a", "x.Y", Clients.of([0]), b""))
    with pytest.raises(CodecError, match="a message of version 2; this is version 1"):
        codec.unframe(framed[:3] + b"\x02" + framed[4:])


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["run", "--resume", str(tmp_path)], ["report", str(tmp_path)]):
        code, text = answer(capsys, monkeypatch, *command)
        assert (code, "expected a run's folder" in text) == (2, True), text
