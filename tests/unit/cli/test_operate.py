"""Another submission of a run that finished, or that still runs, is asked about."""

from __future__ import annotations

import pytest

from securefg.cli.common import require_consent
from securefg.cli.operate import UNKNOWN, doubt_submission
from securefg.flare.overview import LOST
from securefg.flare.progress import Progress
from securefg.foundation.errors import InputError


def progress(state: str) -> Progress:
    return Progress(submission=1, state=state, rounds=4, round=4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "job", "words"),
    [
        ("finished", "FINISHED:COMPLETED", "found a run that finished after round 4"),
        ("finished", UNKNOWN, "found a run that finished after round 4"),
        ("running", "RUNNING", "found the last submission RUNNING, which has not ended"),
        ("interrupted", "DISPATCHED", "has not ended"),
    ],
)
def test_submission_that_may_be_a_mistake_is_doubted(state: str, job: str, words: str) -> None:
    assert words in str(doubt_submission("banks", progress(state), job))


@pytest.mark.parametrize(
    ("state", "job"),
    [
        ("interrupted", "FINISHED:COMPLETED"),
        ("failed", "FINISHED:EXECUTION_EXCEPTION"),
        ("running", "FINISHED:ABNORMAL"),
        ("running", UNKNOWN),
        ("running", LOST),
    ],
)
def test_submission_that_goes_on_is_not_doubted(state: str, job: str) -> None:
    assert doubt_submission("banks", progress(state), job) is None


def test_consent_without_terminal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    require_consent("banks: found finished", yes=True)
    with pytest.raises(InputError) as raised:
        require_consent("banks: found finished", yes=False)
    assert str(raised.value).splitlines() == [
        "banks: found finished: found no terminal to ask at; expected --yes"
    ]
