"""A folder of somebody else is read: nothing in it is run, nothing styles the terminal."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import securefg
from audits.findings.file import FindingsFile
from audits.findings.record import Finding, Verdict
from securefg.cli import main as cli
from securefg.foundation.errors import InputError
from securefg.foundation.lock import owned
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.small import config

HARM = "from pathlib import Path\nPath(__file__).with_suffix('.ran').write_text('')\n"
EVIL = "[/bold] [red] \x1b[31m <script>alert(1)</script> ![x](javascript:y) | `z`"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return runner.start(config(tmp_path_factory.mktemp("runs"), "training.rounds=2")).folder


@pytest.fixture
def run(finished: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "[red]run[\n\x1b[31m" / finished.path.name
    shutil.copytree(finished.path, path)
    return RunFolder(path)


def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["securefg", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    said = capsys.readouterr()
    return (stop.value.code if isinstance(stop.value.code, int) else 0), said.out, said.err


def name_a_module(run: RunFolder, key: str, name: str) -> None:
    path = run.path / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    tree["method"] = {"name": name} if key == "method" else {"name": "fedavg", "network": name}
    path.write_text(yaml.safe_dump(tree))


@pytest.mark.parametrize("verb", ["report", "compare", "audit", "verify"])
@pytest.mark.parametrize("key", ["method", "network"])
def test_no_module_that_a_folder_names_is_imported(
    verb: str,
    key: str,
    run: RunFolder,
    finished: RunFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "harmful.py").write_text(HARM)
    name_a_module(run, key, "harmful" if key == "method" else "harmful.Net")
    others = [str(finished.path)] if verb == "compare" else []
    code, out, err = command(capsys, monkeypatch, verb, str(run.path), *others)
    assert code == (1 if verb == "verify" else 2), err  # a check that cannot be made is wrong
    assert "Traceback" not in err
    assert not (tmp_path / "harmful.ran").exists()
    if key == "method":
        assert "--trust-modules" in (out if verb == "verify" else err)
        command(capsys, monkeypatch, verb, str(run.path), *others, "--trust-modules")
        assert (tmp_path / "harmful.ran").exists()
        sys.modules.pop("harmful", None)


@pytest.mark.parametrize(
    "read",
    [
        lambda path, **trust: securefg.open_run(path, **trust).config,
        lambda path, **trust: securefg.open_run(path, **trust).report(),
        lambda path, **trust: securefg.open_run(path, **trust).figures(),
        lambda path, **trust: securefg.audit(path, only=["promises"], **trust),
        lambda path, **trust: securefg.audit(securefg.open_run(path, **trust), only=["promises"]),
    ],
    ids=["config", "report", "figures", "audit", "audit of an opened run"],
)
def test_the_library_imports_no_module_that_a_folder_names(
    read: Callable[..., object], run: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "harmful.py").write_text(HARM)
    name_a_module(run, "method", "harmful")
    with pytest.raises(InputError, match="trust"):
        read(run.path)
    assert not (tmp_path / "harmful.ran").exists()
    with pytest.raises(InputError):  # it is no method
        read(run.path, trust_modules=True)
    assert (tmp_path / "harmful.ran").exists()
    sys.modules.pop("harmful", None)


def test_no_module_that_a_stored_finding_names_is_imported(
    run: RunFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "harmful_too.py").write_text(HARM)
    store(run, "harmful_too")
    code, _, err = command(capsys, monkeypatch, "audit", str(run.path), "--only", "promises")
    assert "Traceback" not in err
    assert code in (0, 1, 3)
    assert not (tmp_path / "harmful_too.ran").exists()


def store(run: RunFolder, attack: str) -> None:
    about = {"name": EVIL, "method": EVIL, "record": run.summary().transcript_chain}
    file = FindingsFile.begin(run.path / "audit", about, anew=True)
    interval = {"value": 0.5, "low": 0.4, "high": 0.6}
    finding = Finding(
        adversary="server",
        attack=attack,
        method=EVIL,
        metric=EVIL,
        unit=EVIL,
        verdict=Verdict.LEAK,
        because=EVIL,
    )
    tree = {**finding.model_dump(), "gain": interval, "value": interval}
    file.add([Finding.model_validate(tree)])


def test_markup_in_names_and_findings_is_shown_as_it_is(
    run: RunFolder,
    finished: RunFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store(run, EVIL)
    for form in ("html", "md", "json", "csv"):
        code, _, err = command(capsys, monkeypatch, "report", str(run.path), "--format", form)
        assert (code, err) == (0, ""), err
    assert "<script>alert(1)" not in (run.path / "report.html").read_text()
    text = (run.path / "report.md").read_text()
    assert "<script>" not in text
    assert "](javascript" not in text.replace("\\]", "")
    code, out, err = command(capsys, monkeypatch, "compare", str(run.path), str(finished.path))
    assert code == 0, err
    assert "\x1b" not in out
    arguments = ["audit", str(run.path), "--only", "promises"]
    code, out, err = command(capsys, monkeypatch, *arguments)
    assert "Traceback" not in err
    assert "\x1b" not in out
    assert "[/bold]" in out


@pytest.mark.parametrize(
    "arguments", [["report", "RUN"], ["audit", "RUN"], ["report", "RUN", "--format", "md"]]
)
def test_a_folder_in_use_is_left_alone(
    arguments: list[str],
    run: RunFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with owned(run.path):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    words = [str(run.path) if word == "RUN" else word for word in arguments]
    code, _, err = command(capsys, monkeypatch, *words)
    done.set()
    thread.join()
    assert (code, "is in use by process" in err) == (2, True), err


def test_a_summary_of_nonsense_is_named(
    run: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = json.loads((run.path / "summary.json").read_text())
    (run.path / "summary.json").write_text(json.dumps({**tree, "rounds": "many"}))
    code, _, err = command(capsys, monkeypatch, "report", str(run.path))
    assert (code, "rounds" in err) == (2, True), err
