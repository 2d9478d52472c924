"""Bugs of the accountants, the ledger and the budget that were found once and must stay away."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from securefg.federation.channel import check_budget
from securefg.foundation.errors import BudgetExceeded, ConfigError, ProtocolError, RunFolderError
from securefg.privacy.accountants import (
    Accountant,
    Step,
    calibrate_noise,
    claim,
    exact_gaussian,
    tightest,
)
from securefg.privacy.cross_checks import CROSS_CHECKS, opacus_prv
from securefg.privacy.dp_accounting_library import pld_accountant
from securefg.privacy.ledger import Ledger, Mechanism, Release, read_ledger
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.privacy.stages import clip_l2
from securefg.protocol.arrays import num_rows
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.settings.privacy import PrivacySettings

DELTA = 1e-5
DISCRETE = (Step(1.0, 10, discrete=True),)
REFUSING: dict[str, Accountant] = {
    "exact": exact_gaussian,
    "dp-accounting PLD": pld_accountant,
    "Opacus PRV": opacus_prv,
}
ZERO, ONE = Clients(((0, 1),)), Clients(((1, 2),))


class Tell(Message, kind="test_accounting_regressions.Tell"):
    x: Tensor = private("sum", "x", means=Other())


def noised(noise_multiplier: float = 1.0, rows: int = 1) -> Mechanism:
    return Mechanism(
        "Tell.x",
        "local_gaussian",
        per="row" if rows > 1 else "message",
        noise_multiplier=noise_multiplier,
        num_rows=rows,
    )


def release(clients: Clients) -> Release:
    return Release(noised(), clients, round=1, step=1)


def planned_multiplier(*counts: int, target_epsilon: float = 1.0) -> float:
    settings = PrivacySettings(mechanism="local_gaussian", target_epsilon=target_epsilon)
    planned = [PlannedRelease(Tell, "x", count) for count in counts]
    multiplier = make_policy(settings, planned, num_clients=3).rules["Tell.x"].noise_multiplier
    assert multiplier is not None
    return multiplier


# ------------------------------------------------------------------------------- the accountants


@pytest.mark.parametrize(("noise_multiplier", "delta"), [(1e4, 1e-5), (1e5, 1e-9), (1e20, 1e-5)])
def test_very_much_noise_costs_next_to_nothing(noise_multiplier: float, delta: float) -> None:
    assert 0 <= exact_gaussian((Step(noise_multiplier, 1),), delta) < 1e-3


def test_no_noise_at_all_costs_infinity() -> None:
    found = claim([{noised(0.0): 1}], "client", DELTA)
    assert found.epsilon == math.inf
    assert found.because == ("Tell.x",)


@pytest.mark.parametrize("name", REFUSING)
def test_accountants_of_the_exact_gaussian_refuse_discrete_noise(name: str) -> None:
    with pytest.raises(ValueError, match="discrete noise"):
        REFUSING[name](DISCRETE, DELTA)


@pytest.mark.parametrize("name", [n for n in CROSS_CHECKS if n not in REFUSING])
def test_every_other_cross_check_agrees_with_the_claim_for_discrete_noise(name: str) -> None:
    claimed = tightest(DISCRETE, DELTA)
    assert claimed - 1e-3 <= CROSS_CHECKS[name](DISCRETE, DELTA) < 1.01 * claimed


# --------------------------------------------------------------------------------- the calibration


@pytest.mark.parametrize(
    ("count", "rows", "target", "delta"),
    [
        (10, 1, 0.5, 1e-6),
        (100, 2708, 1.0, 1e-5),
        (50, 2708, 8.0, 1e-6),
        (300, 1, 4.0, 1e-5),
        (200, 1, 2.0, 1e-6),
    ],
)
def test_an_ordinary_plan_is_calibrated_to_its_target(
    count: int, rows: int, target: float, delta: float
) -> None:
    found = calibrate_noise({noised(rows=rows): count}, "client", delta, target)
    cost = tightest((Step(found / math.sqrt(rows), count),), delta)
    assert cost == pytest.approx(target, abs=1e-6)


def test_a_target_out_of_reach_is_an_error_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"privacy\.target_epsilon: no noise multiplier"):
        planned_multiplier(1, target_epsilon=1e9)


def test_a_field_that_is_planned_twice_is_counted_twice() -> None:
    assert planned_multiplier(10, 10) == pytest.approx(planned_multiplier(20))


# ---------------------------------------------------------------------------- the unit of a release


def test_one_number_per_client_is_clipped_client_by_client() -> None:
    assert clip_l2(torch.tensor([3.0, 4.0]), 1.0, "row").tolist() == [1.0, 1.0]


def test_one_number_per_client_is_one_row() -> None:
    assert num_rows(torch.tensor([3.0, 4.0])) == 1


# -------------------------------------------------------------------------- the ledger, the budget


def test_a_release_by_a_client_outside_the_ledger_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a release by clients 5; there are 3"):
        Ledger(3).record([release(Clients(((5, 6),)))])


@pytest.mark.parametrize("line", ["3", "null", '"x"'])
def test_a_ledger_line_that_is_no_object_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(3, path).record([release(ZERO)])
    path.write_text(line + "\n" + path.read_text())
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl:1: not the line of this log"):
        list(read_ledger(path))


def test_the_budget_is_that_of_the_clients_asked() -> None:
    """Client 0 has spent what one release costs; client 1 has spent nothing."""
    ledger, policy = Ledger(2), Policy({}, DELTA, "client", budget=5.0, protects=True)
    ledger.record([release(ZERO)])
    check_budget(policy, ledger, ONE, [noised()])
    for clients in (ZERO, Clients(((0, 2),))):
        with pytest.raises(BudgetExceeded):
            check_budget(policy, ledger, clients, [noised()])
