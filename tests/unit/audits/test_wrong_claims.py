"""Wrong claims of other frameworks' records are violations, and no claim is made for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import securefg
from audits.findings.record import Finding, Verdict
from audits.plan import Plan
from audits.run import audit
from securefg.cli.main import app
from securefg.protocol.exchange import Claim

Row = NDArray[np.float64]
CLIENTS, ROUNDS, CLIP, DELTA = 4, 5, 1.0, 1e-5
RNG = np.random.default_rng(0)


def recorded(folder: Path, claim: Claim | None, defend: Callable[[Row], Row]) -> dict[str, Finding]:
    """Record updates of length 1 behind a defence, and audit the promises."""
    with securefg.record(folder, holds="change", claim=claim) as recording:
        for number in range(1, ROUNDS + 1):
            for client in range(CLIENTS):
                row = RNG.normal(size=40)
                row = defend(CLIP * row / np.linalg.norm(row))
                recording.upload(client, number, {"w": row.reshape(10, 4)})
    return {one.attack: one for one in audit(folder, Plan(only=("promises",))).findings}


def noised(sigma: float) -> Callable[[Row], Row]:
    return lambda row: row + sigma * RNG.normal(size=row.shape)


def claimed(**numbers: Any) -> Claim:
    return Claim(delta=DELTA, clip_l2=CLIP, **numbers)


def filtered(made: Any, row: Row) -> Row:
    """Apply one of NVIDIA FLARE's own filters."""
    from nvflare.apis.dxo import DXO, DataKind
    from nvflare.apis.fl_context import FLContext

    dxo = DXO(DataKind.WEIGHT_DIFF, {"w": row.copy()}, {"NUM_STEPS_CURRENT_ROUND": 1})
    result = made.process_dxo(dxo, dxo.to_shareable(), FLContext())
    found: Row = np.asarray(result.data["w"], np.float64)
    return found


def cut_to_percentile(row: Row) -> Row:
    pytest.importorskip("nvflare")
    from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy

    return filtered(PercentilePrivacy(), row)


def share_sparsely(row: Row) -> Row:
    pytest.importorskip("nvflare")
    from nvflare.app_common.filters.svt_privacy import SVTPrivacy

    return filtered(SVTPrivacy(), row)


def test_claim_with_half_the_noise_is_a_violation(tmp_path: Path) -> None:
    found = recorded(tmp_path / "x", claimed(epsilon=3.85, sigma=5.0), noised(2.5))
    assert found["claim_noise"].verdict is Verdict.VIOLATION


def test_claim_with_all_the_noise_is_none(tmp_path: Path) -> None:
    found = recorded(tmp_path / "x", claimed(epsilon=3.85, sigma=5.0), noised(5.0))
    assert found["claim_accounting"].verdict is Verdict.NOT_DETECTED
    assert found["claim_noise"].verdict is not Verdict.VIOLATION


@pytest.mark.parametrize("neighbours", ["replace", "remove"])
def test_claim_by_the_classical_formula_at_50_is_a_violation(
    neighbours: Any, tmp_path: Path
) -> None:
    sigma = CLIP * math.sqrt(2 * math.log(1.25 / DELTA)) / 50
    claim = claimed(epsilon=50.0, sigma=sigma, neighbours=neighbours)
    found = recorded(tmp_path / "x", claim, noised(sigma))
    assert found["claim_accounting"].verdict is Verdict.VIOLATION


@pytest.mark.parametrize("defend", [cut_to_percentile, share_sparsely])
def test_filters_of_flare_called_private_are_violations(
    defend: Callable[[Row], Row], tmp_path: Path
) -> None:
    claim = claimed(epsilon=8.0, sigma=3.0)
    found = recorded(tmp_path / "x", claim, defend)
    assert found["claim_noise"].verdict is Verdict.VIOLATION


def test_audit_command_of_a_wrong_claim_exits_with_1(tmp_path: Path) -> None:
    recorded(tmp_path / "x", claimed(epsilon=3.85, sigma=5.0), noised(2.5))
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "x"), "--only", "promises"])
    assert result.exit_code == 1
    assert "claim noise" in result.output


def test_percentile_filter_without_a_claim_gets_none(tmp_path: Path) -> None:
    found = recorded(tmp_path / "x", None, cut_to_percentile)
    assert not {"claim_accounting", "claim_noise"} & found.keys()
    assert all(one.epsilon_claimed is None for one in found.values())
