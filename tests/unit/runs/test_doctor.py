"""Small runs tell a machine that computes wrongly; a GPU is taken once it is proved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.runs import device, doctor
from securefg.runs.device import choose_device


def test_a_sound_machine_is_told_line_by_line() -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "a run under masks: the plain run's weights" in " ".join(done.output.split())
    assert "GPU" in done.output


def test_weights_that_differ_and_runs_that_fail_are_wrong() -> None:
    assert "differ by" in doctor.compare_weights("another seed", [], ["seed=1"]).bad
    assert "privacy" in doctor.compare_weights("refused", [], ["privacy.clip_l2=-1"]).bad


def test_a_data_root_that_is_no_folder_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECUREFG_DATA", "/none")
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 1


def test_a_gpu_is_taken_by_itself_only_after_its_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECUREFG_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    assert choose_device("auto") == torch.device("cpu")
    device.proof_file("another GPU").parent.mkdir()
    device.proof_file("another GPU").touch()
    assert choose_device("auto") == torch.device("cpu")
    device.proof_file("a GPU").touch()
    assert choose_device("auto") == torch.device("cuda")
