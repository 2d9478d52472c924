"""Small runs tell a machine that computes wrongly; a GPU is taken once it is proved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.runs import device, doctor
from securefg.runs.device import choose_device
from securefg.settings.methods import SHIPPED


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
    monkeypatch.setattr(device, "use_deterministic_kernels", lambda: None)
    assert choose_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("method", sorted(SHIPPED))
def test_every_method_has_a_small_config_for_the_doctor(method: str) -> None:
    assert doctor.small_tree(method)["method"]["name"] == method


@pytest.mark.parametrize("method", ["fedavg", "ppfl_deepwalk", "mlps"])
def test_small_runs_of_a_method_are_compared_by_release_or_score(method: str) -> None:
    tree = doctor.small_tree(method)
    assert doctor.compare_weights(method, [], [], tree).bad == ""
    assert doctor.compare_weights(method, [], ["privacy.clip_l2=-1"], tree).bad


def made_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch, wrong: str = "") -> list[doctor.Line]:
    """Examine a GPU that is not there. Runs of the method `wrong` differ."""
    monkeypatch.setenv("SECUREFG_CACHE", str(folder))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")

    def made(what: str, one: list[str], other: list[str], tree: Any = None) -> doctor.Line:
        assert other == ["device=cuda"]
        return doctor.Line(what, "", "differ" if what.startswith(f"{wrong} ") else "")

    monkeypatch.setattr(doctor, "compare_weights", made)
    return list(doctor._check_gpu())


def test_gpu_is_proved_by_a_run_of_every_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = made_gpu(tmp_path, monkeypatch)
    assert [line.what.partition(" ")[0] for line in lines] == list(SHIPPED)
    assert device.proof_file("a GPU").is_file()


def test_gpu_on_which_one_method_differs_loses_its_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_gpu(tmp_path, monkeypatch)
    made_gpu(tmp_path, monkeypatch, "fedgl")
    assert not device.proof_file("a GPU").exists()
    assert choose_device("auto") == torch.device("cpu")


def test_a_chosen_gpu_asks_for_deterministic_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, bool]] = []
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch, "use_deterministic_algorithms", lambda on, warn_only: asked.append((on, warn_only))
    )
    assert choose_device("cuda:0") == torch.device("cuda:0")
    assert asked == [(True, True)]
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    assert choose_device("cpu") == torch.device("cpu")
    assert len(asked) == 1
