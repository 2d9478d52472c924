"""The run without its defences is made once, and again where it is not as it ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audits.control_runs import control_of
from audits.truth import Truth
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.small import config
from tests.unit.runs.interrupted import NOISE, WEIGHTS_ALONE


def with_more_accuracy(control: RunFolder) -> None:
    path = control.path / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "test_accuracy": 0.99}))


def with_another_message(control: RunFolder) -> None:
    path = control.transcript / "messages.bin"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("change", [with_more_accuracy, with_another_message])
def test_a_control_that_was_changed_is_made_anew(tmp_path: Path, change: object) -> None:
    assert callable(change)
    settings = config(tmp_path / "runs", "training.rounds=1", WEIGHTS_ALONE, NOISE)
    truth = Truth.of(runner.start(settings).folder)
    control = control_of(truth, 1, tmp_path / "controls").folder
    sound = control.path.stat().st_ino
    assert control_of(truth, 1, tmp_path / "controls").folder.path.stat().st_ino == sound
    change(control)
    again = control_of(truth, 1, tmp_path / "controls").folder
    assert again.summary().test_accuracy != 0.99
    assert again.path.stat().st_ino != sound
