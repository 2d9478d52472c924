"""Under noise no attack does worse than its prior, and masks leave what the mean tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks import attack_names, get_attack
from attacks.base import CannotAttack
from audits.blind import NOTHING
from audits.findings.record import Finding, Verdict
from audits.plan import DEFAULT_ADVERSARY, Task
from audits.player import Player
from audits.truth import Truth
from securefg.foundation.interval import Interval
from securefg.runs import runner
from securefg.settings.config import RunConfig, parse_config
from tests import small

METHODS = [
    ("fedgl", "row"),
    ("gfl_appnp", "client"),
    ("nfedgnn", "client"),
    ("ppfl_deepwalk", "row"),
]
SURE = 3.29 / 1.96
"""From a 95 % interval to one of 99.9 %: every test draws new noise, and attacks are many."""


def played(config: RunConfig) -> list[Finding]:
    """All attacks that this run gives anything to."""
    truth = Truth.of(runner.start(config).folder)
    player, played_findings = Player(truth, 0, 0.05, defended=True), []
    for attack in map(get_attack, attack_names()):
        for kind in sorted(attack.adversaries):
            adversary = DEFAULT_ADVERSARY[kind]
            try:
                if truth.spoken.unmet_need(attack) or attack.applies_to(
                    player.view(truth, adversary)
                ):
                    continue
            except CannotAttack:
                continue
            finding, _ = player.play(Task(attack, adversary))
            if finding.gain is not None:
                played_findings.append(finding)
    return played_findings


def below(findings: list[Finding]) -> list[str]:
    """The attacks whose interval ends below the prior by more than a trace."""
    ends = {
        f"{f.attack}/{f.adversary}": f.gain.value + SURE * (f.gain.high - f.gain.value)
        for f in findings
        if f.gain is not None
    }
    return [name for name, end in ends.items() if end < -NOTHING]


def noised(root: Path, method: str, unit: str, epsilon: float) -> RunConfig:
    tree = small.tree(root, method)
    tree["privacy"] = {
        "mechanism": "local_gaussian",
        "target_epsilon": epsilon,
        "unit": unit,
        "clip_l2": 1.0,
    }
    if method == "fedgl":
        tree["method"] |= {"weighting": "equal", "embedding": "hidden"}
    if method in ("gfl_appnp", "nfedgnn"):
        tree["partition"] = {"name": "one_node"}
    if method == "ppfl_deepwalk":
        tree["partition"] = {"name": "public_private", "num_clients": 3}
        tree["method"] |= {"scoring": "split"}
    if method == "gfl_appnp":
        tree["method"] |= {"jacobian": "none", "upload": "update"}
    return parse_config(tree)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2, 50, 2000, 100_000])
@pytest.mark.parametrize(("method", "unit"), METHODS)
def test_no_attack_falls_below_its_prior(
    tmp_path: Path, method: str, unit: str, epsilon: float
) -> None:
    findings = played(noised(tmp_path, method, unit, epsilon))
    assert len(findings) >= 2
    assert below(findings) == []


@pytest.mark.parametrize(("low", "high", "named"), [(-0.3, -0.2, True), (-0.3, -0.01, False)])
def test_an_attack_below_its_prior_is_named(low: float, high: float, named: bool) -> None:
    finding = Finding(
        adversary="server",
        attack="some",
        method="-",
        metric="-",
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because="-",
        gain=Interval(value=(low + high) / 2, low=low, high=high),
    )
    assert below([finding]) == (["some/server"] if named else [])


@pytest.mark.slow
def test_the_mean_of_masked_changes_still_tells_members(tmp_path: Path) -> None:
    tree = small.tree(tmp_path)
    tree["method"] |= {"weighting": "equal"}
    tree["privacy"] = {"secure_aggregation": {}}
    found = {f.attack: f for f in played(parse_config(tree)) if f.adversary == "server"}
    gain = found["membership_gradients"].gain
    assert gain is not None
    assert gain.low > 0
