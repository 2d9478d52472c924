"""The example defence from outside is accounted, audited and accepted by sites, like our own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch import Tensor

from audits.findings.record import Verdict
from audits.mechanisms.audit import audit_experiment
from audits.mechanisms.results import failed_checks
from audits.recorded import recorded_noise
from audits.truth import Truth
from audits.uploads import Sealing, open_channel
from securefg.foundation.errors import ConfigError
from securefg.privacy.noise import SystemNoise
from securefg.privacy.policy import Policy
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig, parse_config
from securefg.site.policy import JobRefused, SitePolicy
from tests.outside import EXAMPLE, NAME, Laplace
from tests.unit.flare.federation_world import World


def config(root: Path, *overrides: str) -> RunConfig:
    tree = yaml.safe_load((EXAMPLE / "laplace.yaml").read_text())
    named = [f"privacy.mechanism={NAME}", f"output.root={root}"]
    return parse_config(tree, [*named, *overrides])


def finished(root: Path, *overrides: str) -> RunFolder:
    return runner.start(config(root, *overrides)).folder


def epsilon_by_hand(rho: float, delta: float) -> float:
    """The conversion of zCDP by Canonne, Kamath and Steinke 2020, over a fine grid of orders."""
    orders = [1 + 10 ** (k / 200) for k in range(-400, 600)]
    return min(
        rho * a + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1) for a in orders
    )


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return finished(tmp_path_factory.mktemp("honest"))


def test_own_defence_epsilon_equals_the_computation_by_hand(honest: RunFolder) -> None:
    rounds, multiplier = 3, 2.0
    rho = rounds * (1 / multiplier) ** 2 / 2
    told = honest.summary().epsilon["client"]
    assert told.epsilon == pytest.approx(epsilon_by_hand(rho, 1e-5), rel=0.01)
    lines = [json.loads(line) for line in honest.ledger_path.read_text().splitlines()]
    assert {line["mechanism"]["rule"] for line in lines} == {"laplace"}
    assert {line["mechanism"]["accounting"] for line in lines} == {"zcdp"}


def test_own_defence_target_epsilon_sizes_its_noise(tmp_path: Path) -> None:
    asked = config(tmp_path, "privacy.noise_multiplier=null", "privacy.target_epsilon=4")
    (rule,) = prepare(asked).policy.rules.values()
    assert isinstance(rule, Laplace)
    rho = 3 / rule.noise_multiplier**2 / 2
    assert epsilon_by_hand(rho, 1e-5) == pytest.approx(4, rel=0.01)


def test_own_defence_with_zero_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found zero_out; expected replace_one"):
        prepare(config(tmp_path, "privacy.adjacency=zero_out"))


def test_own_defence_without_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs either noise_multiplier or target_epsilon"):
        prepare(config(tmp_path, "privacy.noise_multiplier=null"))


def with_noise(factor: float) -> Callable[[Policy], Sealing]:
    """Channels whose noise is so many times the claimed one."""

    def make(policy: Policy) -> Sealing:
        rules: dict[str, Any] = {n: r.scaled(factor) for n, r in policy.rules.items()}  # type: ignore[attr-defined]
        return open_channel(replace(policy, rules=rules), SystemNoise())

    return make


def test_own_defence_honest_channel_passes_all_games(tmp_path: Path) -> None:
    results = audit_experiment(prepare(config(tmp_path)), 2000, 0, with_noise(1.0))
    assert failed_checks(results) == {}
    assert {"canary", "loud", "linked", "whole", "seed", "redraw", "birthday"} <= {
        result.check for result in results
    }


def test_own_defence_with_half_its_noise_is_a_violation(tmp_path: Path) -> None:
    results = audit_experiment(prepare(config(tmp_path)), 2000, 0, with_noise(0.5))
    assert "whole" in failed_checks(results)["Update.weights"]


def test_own_defence_recorded_noise_follows_its_law(honest: RunFolder) -> None:
    (finding,) = recorded_noise(Truth.of(honest))
    assert (finding.verdict, finding.targets > 1000) == (Verdict.NOT_DETECTED, True)


def test_own_defence_half_the_noise_shows_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = Laplace.apply

    def halved(rule: Any, *rest: Any) -> Tensor:
        return sound(replace(rule, noise_multiplier=rule.noise_multiplier / 2), *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Laplace, "apply", halved)
        folder = finished(tmp_path)
    (finding,) = recorded_noise(Truth.of(folder))
    assert finding.verdict is Verdict.VIOLATION


def test_own_defence_is_deployed_where_a_site_allows_it(tmp_path: Path) -> None:
    job = config(tmp_path, "partition.num_clients=4", "training.rounds=1")
    world = World(tmp_path, job)
    world.policy("site-2", f"defences: [{NAME}]\nleast_noise: 2")
    assert world.run().summary().rounds == 1


def test_own_defence_is_refused_where_a_site_does_not_name_it(tmp_path: Path) -> None:
    chosen = config(tmp_path)
    prepared_run = prepare(chosen)
    planned = prepared_run.method.releases(chosen.method, chosen.training, prepared_run.public)
    floor = SitePolicy.everything_goes().model_copy(update={"defences": ()})
    with pytest.raises(JobRefused, match=f"defence {NAME}; allowed here: none beside"):
        floor.check(chosen, prepared_run.policy, planned, {"a": 4})
    allowing = floor.model_copy(update={"defences": (NAME,)})
    allowing.check(chosen, prepared_run.policy, planned, {"a": 4})


def test_own_defence_is_short() -> None:
    assert len((EXAMPLE / "laplace.py").read_text().splitlines()) <= 120
