"""`--profile` reports what a command used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from securefg.cli.profile import Profile, Usage, profile_phases


def test_usage_after_work_and_memory_grows() -> None:
    before = Usage.now()
    held = bytearray(64 * 2**20)
    held[:: 2**12] = b"x" * len(held[:: 2**12])
    total = sum(i * i for i in range(10**6))
    after = Usage.now()
    assert total
    assert after.cpu_seconds > before.cpu_seconds
    assert after.peak_gib >= before.peak_gib
    assert 0.01 < after.peak_gib < 1000


def test_usage_of_a_child_counts_once_it_ended() -> None:
    before = Usage.now()
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(3 * 10**6))"], check=True)
    after = Usage.now()
    assert after.cpu_seconds - before.cpu_seconds > 0.05
    assert after.peak_of_children_gib > 0


def test_profile_of_phases_adds_up() -> None:
    profile = Profile()
    for phase in ("data", "data", "rounds"):
        profile.begin(phase)
    lines = profile.lines()
    assert [line.split()[0] for line in lines[:5]] == [
        "phase",
        "start-up",
        "data",
        "rounds",
        "total",
    ]
    seconds = [float(line.split()[1]) for line in lines[1:5]]
    assert sum(seconds[:3]) == pytest.approx(seconds[3], abs=0.02)


@pytest.mark.parametrize("asked", [True, False])
def test_profiling_of_a_failure_still_reports(
    asked: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="broken"), profile_phases(asked):
        raise ValueError("broken")
    shown = capsys.readouterr().err
    assert shown.startswith("securefg: profile: phase") if asked else not shown
