"""The calculator's numbers against golden ones, against RDP, and against its own inverse."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import securefg
from securefg.cli.main import app
from securefg.foundation.errors import ConfigError
from securefg.privacy.accountants import Step
from securefg.privacy.calculator import compute_epsilon, find_noise, round_up
from securefg.privacy.dp_accounting_library import rdp_accountant

PLAN: dict[str, Any] = {"nodes": 1000, "rounds": 5, "clip": 1.0}


def epsilons(**plan: Any) -> dict[str, float]:
    return {one.unit: one.epsilon for one in compute_epsilon(**{**PLAN, **plan})}


@pytest.mark.parametrize(
    ("rounds", "noise", "expected"), [(1, 2.0, 4.37718), (100, 10.0, 9.99726), (5, 5.0, 3.84861)]
)
def test_epsilon_of_upload_noise_equals_golden_numbers(
    rounds: int, noise: float, expected: float
) -> None:
    assert epsilons(rounds=rounds, noise=noise)["client"] == pytest.approx(expected, abs=1e-4)


def test_epsilon_depends_on_the_ratio_of_noise_and_clip() -> None:
    assert epsilons(noise=5.0) == epsilons(noise=15.0, clip=3.0)


def test_epsilon_of_removal_covers_no_record() -> None:
    found = epsilons(noise=5.0, neighbours="remove")
    assert found["client"] == pytest.approx(epsilons(noise=10.0)["client"])
    assert found["record"] == epsilons(noise=5.0)["record"]


def test_epsilon_of_a_node_counts_every_holder() -> None:
    found = epsilons(noise=5.0, holders=4)
    assert found["node"] == pytest.approx(epsilons(noise=5.0, rounds=20)["client"])
    assert found["client"] == epsilons(noise=5.0)["client"]


def test_epsilon_of_dp_sgd_is_tighter_than_rdp() -> None:
    found = epsilons(noise=1.1, batch=64, steps=20)
    bound = rdp_accountant((Step(1.1, 100, 0.064),), 1e-5)
    assert 0.8 * bound < found["record"] < bound
    assert found["client"] > 1e6


def test_epsilon_of_the_classical_formula_is_larger_than_claimed() -> None:
    noise = math.sqrt(2 * math.log(1.25e5)) / 10
    assert epsilons(rounds=1, noise=noise, neighbours="remove")["client"] == pytest.approx(
        10.39, abs=0.01
    )
    assert epsilons(rounds=1, noise=noise)["client"] == pytest.approx(25.44, abs=0.01)


@pytest.mark.parametrize("target", [0.1, 4.0, 50.0])
@pytest.mark.parametrize("unit", ["client", "record", "node"])
def test_noise_for_a_target_keeps_it_and_hardly_more(target: float, unit: Any) -> None:
    noise = find_noise(target, unit=unit, holders=3, **PLAN)
    assert 0.995 * target < epsilons(noise=noise, holders=3)[unit] <= target


def test_noise_for_a_target_of_dp_sgd_keeps_it() -> None:
    plan = {**PLAN, "batch": 100, "steps": 2}
    noise = find_noise(2.0, unit="record", **plan)
    found = {one.unit: one.epsilon for one in compute_epsilon(noise=noise, **plan)}
    assert 1.98 < found["record"] <= 2.0


@pytest.mark.parametrize("value", [0.99999, 1.0, 1.0001, 123456.0, 3.1e-7])
def test_round_up_never_rounds_down(value: float) -> None:
    assert value <= round_up(value) <= value * 1.0011


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"noise": 0.0}, "noise_sd: found 0.0; expected a positive number"),
        ({"noise": math.nan}, "noise_sd: found nan"),
        ({"noise": 1.0, "clip": -1.0}, "clip_l2: found -1.0"),
        ({"noise": 1.0, "rounds": 0}, "rounds: found 0"),
        ({"noise": 1.0, "nodes": True}, "nodes: found True"),
        ({"noise": 1.0, "delta": 1.0}, "delta: found 1.0"),
        ({"noise": 1.0, "batch": 2000}, "batch: found 2000; expected at most 1000"),
        ({"noise": 1.0, "steps": 2}, "steps: found no batch"),
        ({"noise": 1.0, "neighbours": "zero"}, "neighbours: found 'zero'"),
    ],
)
def test_epsilon_with_wrong_settings_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        compute_epsilon(**{**PLAN, **wrong})


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan, 1e30])
def test_noise_for_an_impossible_target_is_refused(target: float) -> None:
    with pytest.raises(ConfigError, match="target: found"):
        find_noise(target, **PLAN)


def test_epsilon_with_a_large_delta_warns() -> None:
    (client, *_) = compute_epsilon(**PLAN, noise=5.0, delta=1e-3)
    assert any("WARNING: delta" in said for said in client.assumptions)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["epsilon", *arguments])


def test_epsilon_page_commands_print_what_it_says() -> None:
    page = Path("docs/howto/epsilon.md").read_text()
    commands = re.findall(r"^securefg epsilon (.*)$", page, re.M)
    outputs = [run(*command.split()) for command in commands]
    assert [one.exit_code for one in outputs] == [0, 0, 0, 0]
    shown = re.findall(r"^    ((?:noise|client|record|node|assumes) .+)$", page, re.M)
    assert len(shown) == 7
    assert set(shown) <= set(outputs[0].output.splitlines())
    assert "epsilon 3.999" in outputs[1].output
    assert "record    epsilon 3.721" in outputs[2].output
    assert "client    epsilon 10.39" in outputs[3].output


def test_epsilon_page_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path("docs/howto/epsilon.md").read_text()
    _, code = re.findall(r"```python\n(.*?)```", page, re.S)  # the first one trains a network
    exec(code, {"securefg": securefg})
    assert "4.836" in capsys.readouterr().out


def test_epsilon_command_json_has_the_noise() -> None:
    printed_fields = json.loads(
        run("--nodes", "9", "--rounds", "1", "--clip", "1", "--target", "1", "--json").output
    )
    assert printed_fields["noise"] > 1
    assert [one["unit"] for one in printed_fields["units"]] == ["client", "record", "node"]


@pytest.mark.parametrize("more", [(), ("--noise", "1", "--target", "1")])
def test_epsilon_command_without_one_of_both_is_refused(more: tuple[str, ...]) -> None:
    result = run("--nodes", "9", "--rounds", "1", "--clip", "1", *more)
    assert isinstance(result.exception, ConfigError)
