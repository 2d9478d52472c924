"""Noise from a seed that everybody knows is taken off before an attack looks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from audits.control_runs import is_defended
from audits.findings.record import Verdict
from audits.plan import Plan
from audits.run import audit
from audits.truth import Truth
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.protocol.transcript import Adversary, view
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

SEEDED = ("privacy.mechanism=local_gaussian", "privacy.noise_multiplier=3", "privacy.clip_l2=1000")


def made(root: Path, *overrides: str, method: str = "gfl_appnp") -> Truth:
    tree = small.tree(root, method)
    if method == "gfl_appnp":
        tree["partition"] = {"name": "one_node"}
    tree["training"] = {"rounds": 1, "patience": None}
    return Truth.of(runner.start(parse_config(tree, overrides)).folder)


def uploaded(truth: Truth, kind: str, name: str) -> torch.Tensor:
    seen = truth.view(Adversary.parse("server")).seen
    rows = [s.fields[name] for s in seen if s.header.kind == kind and s.fields]
    return torch.cat([row for row in rows if isinstance(row, torch.Tensor)]).double()


def recorded(truth: Truth, kind: str, name: str) -> torch.Tensor:
    seen = view(truth.folder.transcript, Adversary.parse("server"))
    rows = [s.fields[name] for s in seen if s.header.kind == kind and s.fields]
    return torch.cat([row for row in rows if isinstance(row, torch.Tensor)]).double()


def test_seeded_noise_is_off_every_upload(tmp_path: Path) -> None:
    plain, noised = made(tmp_path), made(tmp_path, *SEEDED, "privacy.noise_rng=seeded")
    kind = "gfl_appnp.Representation"
    wanted = uploaded(plain, kind, "hidden")
    assert (recorded(noised, kind, "hidden") - wanted).abs().mean() > 100
    assert torch.allclose(uploaded(noised, kind, "hidden"), wanted, atol=1e-2)
    assert not noised.view(Adversary.parse("server")).noise_left
    assert not noised.view(Adversary.parse("server")).noise
    assert not is_defended(noised.experiment.policy)


def test_noise_of_the_system_stays_on(tmp_path: Path) -> None:
    noised = made(tmp_path, *SEEDED)
    kind = "gfl_appnp.Representation"
    assert torch.equal(uploaded(noised, kind, "hidden"), recorded(noised, kind, "hidden"))
    assert is_defended(noised.experiment.policy)
    rule = noised.experiment.policy.rules["Representation.hidden"]
    assert isinstance(rule, LocalGaussian)
    known = noised.view(Adversary.parse("client:0")).noise[kind, "hidden"]  # a policy is agreed
    assert (known.sd, known.clip_l2) == (rule.sigma, rule.clip_l2)


@pytest.mark.parametrize("whose", ["server", "client:0,3"])
def test_noise_that_the_method_draws_by_itself_is_off(tmp_path: Path, whose: str) -> None:
    plain = made(tmp_path)
    noised = made(tmp_path, "method.jacobian_noise=1")
    kind = "gfl_appnp.Representation"
    views = [truth.view(Adversary.parse(whose)).seen for truth in (plain, noised)]
    rows = [
        torch.cat([s.fields["jacobian"] for s in seen if s.header.kind == kind and s.fields])  # type: ignore[arg-type]
        for seen in views
    ]
    assert torch.allclose(*rows, atol=1e-4)
    assert not torch.allclose(recorded(noised, kind, "jacobian"), recorded(plain, kind, "jacobian"))


def test_seeded_noise_under_masks_is_off_the_opened_sum(tmp_path: Path) -> None:
    masked = ("privacy.secure_aggregation={}", "privacy.clip_l2=50")
    noise = ("privacy.mechanism=distributed_discrete", "privacy.noise_multiplier=2")
    plain = made(tmp_path, "privacy.secure_aggregation={}", method="fedavg")
    noised = made(tmp_path, *masked, *noise, "privacy.noise_rng=seeded", method="fedavg")
    kind = "fedavg.Update.sum"
    name = "weights"
    wanted = uploaded(plain, kind, name)
    raw, bared = recorded(noised, kind, name), uploaded(noised, kind, name)
    assert (bared - wanted).abs().mean() < 0.05 * (raw - wanted).abs().mean()


def test_a_run_whose_noise_anybody_can_draw_again_leaks_and_is_never_silent(tmp_path: Path) -> None:
    noised = made(tmp_path, *SEEDED, "privacy.noise_rng=seeded")
    plan = Plan(only=("jacobian_samples",))
    audit_findings = audit(noised.folder.path, plan).findings
    by = {f.attack: f for f in audit_findings}
    assert by["jacobian_samples"].verdict is Verdict.LEAK
    reached = by["jacobian_samples"].value
    assert reached is not None
    assert reached.value > 0.99
    assert Verdict.NOT_DETECTED not in {f.verdict for f in audit_findings}
