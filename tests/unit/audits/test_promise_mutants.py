"""Broken promises of whole runs, whose code the auditor has: none of them passes in silence."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audits.books import reconcile_books
from audits.findings.record import Finding, Verdict
from audits.influence import audit_influences
from audits.mechanisms.message import AuditedMessage
from audits.mechanisms.redraw import play_birthdays, play_redraw
from audits.mechanisms.results import LawResult
from audits.recorded import recorded_noise
from audits.truth import Truth
from audits.uploads import open_channel
from securefg.foundation.streams import derive_seed
from securefg.foundation.units import epsilon_text
from securefg.methods.two_sums import algorithm as two_sums
from securefg.methods.two_sums import features
from securefg.privacy.defences import distributed_discrete
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.noise import SystemNoise
from securefg.runs import assembly
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.runner import start
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret
from securefg.settings.config import parse_config
from tests.small import tree as fedgl_tree
from tests.unit.methods.test_two_sums import PRIVATE, tree

Patch = pytest.MonkeyPatch
Spoil = Callable[[Patch], None]
SYSTEM = {**PRIVATE, "noise_rng": "system"}
LOCAL = {"mechanism": "local_gaussian", "noise_multiplier": 2.0, "unit": "node"}


def made(root: Path, *overrides: str, **changed: Any) -> Truth:
    return Truth.of(start(parse_config(tree(root, privacy=SYSTEM, **changed), overrides)).folder)


def made_by_fedgl(root: Path, *overrides: str) -> Truth:
    base = fedgl_tree(root)
    base["method"] |= {"weighting": "equal"}
    base["data"]["csbm"] |= {"num_nodes": 60, "num_features": 12}
    base["training"] |= {"rounds": 2, "local_epochs": 1}
    return Truth.of(start(parse_config({**base, "privacy": LOCAL}, overrides)).folder)


def verdicts(findings: list[Finding]) -> set[Verdict]:
    return {finding.verdict for finding in findings}


def messages(x: Experiment, trials: int = 400) -> list[AuditedMessage]:
    planned = x.method.planned(x.config.method, x.config.training, x.public)
    by_kind = {r.message: [o for o in planned if o.message is r.message] for r in planned}
    policy = replace(x.policy, budget=None)
    make = lambda policy: open_channel(policy, SystemNoise())  # noqa: E731
    return [
        AuditedMessage(policy, releases, make, trials, np.random.default_rng(0), 0.999)
        for releases in by_kind.values()
    ]


def redrawn(x: Experiment) -> list[LawResult]:
    return [result for message in messages(x) for result in play_redraw(message)]


# ------------------------------------------------------------------- noise that can be drawn again


def constant_key(patched: Patch) -> None:
    def read(noise: Any, clients: Any, name: Any) -> Any:
        return Keystream(Secret(b"a key in the source code........")).read

    def normal(noise: Any, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        generator = torch.Generator().manual_seed(9_876_543_210_123)
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    patched.setattr(SystemNoise, "random_bytes", read)
    patched.setattr(SystemNoise, "normal", normal)


def hash_of_public_names(patched: Patch) -> None:
    def seed(clients: Any, name: Any) -> int:
        return derive_seed(271_828_182_845, str(clients), *name)

    def normal(noise: Any, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        generator = torch.Generator().manual_seed(seed(clients, name))
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def read(noise: Any, clients: Any, name: Any) -> Any:
        return np.random.default_rng(seed(clients, name)).bytes

    patched.setattr(SystemNoise, "normal", normal)
    patched.setattr(SystemNoise, "random_bytes", read)


def hash_of_the_value(patched: Patch) -> None:
    discrete, apply = distributed_discrete._discretise_values, LocalGaussian.apply

    class OfValue(SystemNoise):
        def __init__(self, values: Tensor) -> None:
            digest = hashlib.sha256(values.double().numpy().tobytes()).digest()
            self.seed = int.from_bytes(digest[:8], "big") >> 1

        def normal(self, shape: torch.Size, clients: Any, name: Any) -> Tensor:
            generator = torch.Generator().manual_seed(self.seed)
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        def random_bytes(self, clients: Any, name: Any) -> Any:
            return np.random.default_rng(self.seed).bytes

    patched.setattr(
        distributed_discrete,
        "_discretise_values",
        lambda rule, x, noise, *rest: discrete(rule, x, OfValue(x), *rest),
    )
    patched.setattr(
        LocalGaussian, "apply", lambda rule, x, noise, *rest: apply(rule, x, OfValue(x), *rest)
    )


def the_runs_seed(patched: Patch) -> None:
    """Seed 0, which the config shows to everybody."""

    def read(noise: Any, clients: Any, name: Any) -> Any:
        return np.random.default_rng(derive_seed(0, "noise", str(clients), *name)).bytes

    def normal(noise: Any, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        generator = torch.Generator().manual_seed(derive_seed(0, "noise", str(clients), *name))
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    patched.setattr(SystemNoise, "random_bytes", read)
    patched.setattr(SystemNoise, "normal", normal)


AGAIN = [constant_key, hash_of_public_names, hash_of_the_value, the_runs_seed]


@pytest.mark.parametrize("spoil", AGAIN)
def test_redraw_of_noise_under_masks_finds_what_comes_again(
    spoil: Spoil, tmp_path: Path, monkeypatch: Patch
) -> None:
    spoil(monkeypatch)
    truth = made(tmp_path)
    found = recorded_noise(truth)
    assert verdicts(found) == {Verdict.VIOLATION}
    assert {result.verdict for result in redrawn(truth.experiment)} == {"VIOLATION"}


@pytest.mark.parametrize("spoil", AGAIN)
def test_redraw_of_local_noise_finds_what_comes_again(
    spoil: Spoil, tmp_path: Path, monkeypatch: Patch
) -> None:
    spoil(monkeypatch)
    truth = made_by_fedgl(tmp_path)
    assert verdicts(recorded_noise(truth)) == {Verdict.VIOLATION}
    assert {result.verdict for result in redrawn(truth.experiment)} == {"VIOLATION"}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made(tmp_path_factory.mktemp("honest"))


def test_redraw_of_sound_noise_finds_nothing(honest: Truth) -> None:
    assert {result.verdict for result in redrawn(honest.experiment)} == {"NOT_DETECTED"}
    assert verdicts(recorded_noise(honest)) == {Verdict.NOT_DETECTED}
    assert reconcile_books(honest).verdict is Verdict.NOT_DETECTED


def fresh_seeds(bits: int) -> Spoil:
    def spoil(patched: Patch) -> None:
        def read(noise: Any, clients: Any, name: Any) -> Any:
            return np.random.default_rng(secrets.randbits(bits)).bytes

        patched.setattr(SystemNoise, "random_bytes", read)

    return spoil


@pytest.mark.parametrize(
    ("bits", "draws"), [(16, 1000), pytest.param(24, 14_000, marks=pytest.mark.slow)]
)
def test_birthdays_of_few_fresh_seeds_are_found(
    bits: int, draws: int, honest: Truth, monkeypatch: Patch
) -> None:
    """Of 24 bits, six pairs are expected among 14,000 draws: one audit in 340 finds none."""
    fresh_seeds(bits)(monkeypatch)
    message = messages(honest.experiment)[-1]
    (result,) = play_birthdays(message, draws)
    assert result.verdict == "VIOLATION"


@pytest.mark.slow
def test_birthdays_of_fresh_32_bit_seeds_are_found(honest: Truth, monkeypatch: Patch) -> None:
    from audits.mechanisms.redraw import THOROUGH_BIRTHDAYS

    fresh_seeds(32)(monkeypatch)
    (result,) = play_birthdays(messages(honest.experiment)[-1], THOROUGH_BIRTHDAYS)
    assert result.verdict == "VIOLATION"


def test_birthdays_of_sound_noise_find_nothing(honest: Truth) -> None:
    results = [r for message in messages(honest.experiment) for r in play_birthdays(message, 1000)]
    assert {result.verdict for result in results} == {"NOT_DETECTED"}


# ------------------------------------------------------------------------- noise along the value


def orthogonal_to_the_own_sum(patched: Patch) -> None:
    sound = distributed_discrete._discretise_values

    def flat(rule: Any, values: Any, noise: Any, clients: Any, stream: Any) -> Any:
        whole = sound(rule, values, noise, clients, stream).astype(np.float64)
        clean = values.double().numpy().reshape(len(values), -1) * rule.scale
        lengths = np.maximum(np.linalg.norm(clean, axis=1, keepdims=True), 1e-12)
        direction, added = clean / lengths, whole - clean
        along = (added * direction).sum(1, keepdims=True) * (lengths > 1)
        return np.round(whole - along * direction).astype(np.int64)

    patched.setattr(distributed_discrete, "_discretise_values", flat)


def test_noise_orthogonal_to_every_silos_own_sum_is_found(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """Honest code finds nothing in one recorded sum: the run's own code draws the noise again."""
    orthogonal_to_the_own_sum(monkeypatch)
    truth = made(tmp_path)
    bad = [f for f in recorded_noise(truth) if f.verdict is Verdict.VIOLATION]
    assert bad
    assert "along the value" in bad[0].because
    assert "VIOLATION" in {result.verdict for result in redrawn(truth.experiment)}


# ------------------------------------------------------------------------------ declared influence


def declared_at(share: float) -> Spoil:
    def spoil(patched: Patch) -> None:
        sound = two_sums.moved_by_node
        patched.setattr(
            two_sums, "moved_by_node", lambda settings, links: share * sound(settings, links)
        )

    return spoil


def two_hops_counted_as_one(patched: Patch) -> None:
    sound = features.links_of

    def links_of(graph: Any) -> Any:
        links = sound(graph)
        within = links + links @ links
        within.data[:] = 1.0
        return within

    patched.setattr(features, "links_of", links_of)


def one_node_of_every_silo_counted_30_times(patched: Patch) -> None:
    sound = two_sums.moments_of

    def moments_of(graph: Any, rows: Tensor) -> Any:
        rows = rows.clone()
        trains = graph.split.train.nonzero().flatten()
        rows[trains[len(trains) // 3]] *= 30**0.5
        return sound(graph, rows)

    patched.setattr(two_sums, "moments_of", moments_of)


@pytest.mark.parametrize(
    "spoil",
    [
        declared_at(0.5),
        declared_at(0.6),
        two_hops_counted_as_one,
        one_node_of_every_silo_counted_30_times,
    ],
    ids=["S(k) at .5", "S(k) at .6", "two hops", "30 times"],
)
def test_declared_influence_that_is_too_small_is_refuted(
    spoil: Spoil, tmp_path: Path, monkeypatch: Patch
) -> None:
    spoil(monkeypatch)
    found = {f.because.partition(":")[0]: f for f in audit_influences(made(tmp_path), 0)[:2]}
    assert found["Products.products"].verdict is Verdict.VIOLATION
    assert found["ClassSums.sums"].verdict is Verdict.NOT_DETECTED


def test_declared_influence_reports_a_share_per_release(honest: Truth) -> None:
    node, products, edge, links = audit_influences(honest, 0)
    assert verdicts([node, products, edge, links]) == {Verdict.NOT_DETECTED}
    assert node.details["share_of_declared"] == pytest.approx(1, abs=1e-3)
    assert 0.7 < products.details["share_of_declared"] < 1
    assert edge.details["share_of_declared"] == 0
    assert 0.5 < links.details["share_of_declared"] < 1


def test_holders_are_recounted_from_the_partition(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(assembly, "most_holders", lambda graph, partition: (1, 1))
    shares = {"name": "shares", "shares": [0.9] * 6}
    finding = reconcile_books(made(tmp_path, partition=shares))
    assert finding.verdict is Verdict.VIOLATION
    assert "1 holders of a node; the partition has 6" in finding.because


# -------------------------------------------------------------------------- rounds, bits and stops


def test_rounds_outside_the_record_are_inconclusive(tmp_path: Path, monkeypatch: Patch) -> None:
    """Seven of twelve rounds carry no noise, and no recorded one is among them."""
    sound = SystemNoise.normal

    def normal(noise: Any, shape: torch.Size, clients: Any, name: Any) -> Tensor:
        bare = name[2] in (2, 3, 4, 6, 7, 8, 9)
        return sound(noise, shape, clients, name) * (not bare)

    with monkeypatch.context() as patched:
        patched.setattr(SystemNoise, "normal", normal)
        truth = made_by_fedgl(tmp_path, "training.rounds=12", "output.transcript_every=5")
    found = recorded_noise(truth)
    assert verdicts(found) == {Verdict.INCONCLUSIVE}
    assert all("of 12 rounds were sent" in finding.because for finding in found)


def value_in_the_low_bits(patched: Patch) -> None:
    """The clipped value in the last eight bits of the mantissa, where no noise reaches."""
    sound = LocalGaussian.apply

    def apply(rule: LocalGaussian, values: Tensor, *rest: Any) -> Tensor:
        noisy = sound(rule, values, *rest)
        bits = noisy.view(torch.int32)
        code = ((values / rule.clip_l2).clamp(-1, 1) * 127 + 128).to(torch.int32) & 255
        return ((bits & ~255) | code).view(torch.float32)

    patched.setattr(LocalGaussian, "apply", apply)


def test_a_value_in_the_low_bits_of_uploads_is_found(tmp_path: Path, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patched:
        value_in_the_low_bits(patched)
        truth = made_by_fedgl(tmp_path)
    found = recorded_noise(truth)
    assert verdicts(found) == {Verdict.VIOLATION}
    assert all("beside the grid" in finding.because for finding in found)


def test_a_value_in_the_low_bits_of_the_grid_is_found(monkeypatch: Patch, tmp_path: Path) -> None:
    """Uploads stay on the grid; the same low bits come at every draw."""
    sound = LocalGaussian.apply

    def apply(rule: LocalGaussian, values: Tensor, *rest: Any) -> Tensor:
        steps = torch.round(sound(rule, values, *rest).double() / rule.grid_step).long()
        code = ((values / rule.clip_l2).clamp(-1, 1) * 7 + 8).long() & 15
        return (((steps & ~15) | code).double() * rule.grid_step).to(values.dtype)

    monkeypatch.setattr(LocalGaussian, "apply", apply)
    base = fedgl_tree(tmp_path)
    base["method"] |= {"weighting": "equal"}
    x = prepare(parse_config({**base, "privacy": LOCAL}))
    found = redrawn(x)
    assert {result.verdict for result in found} == {"VIOLATION"}
    assert all("bit" in result.because for result in found)


def test_early_stop_claims_the_planned_epsilon(tmp_path: Path) -> None:
    overrides = ("training.rounds=30", "training.patience=1", "output.transcript_every=0")
    truth = made_by_fedgl(tmp_path, *overrides)
    summary = truth.folder.summary()
    assert summary.rounds < 30
    node = summary.epsilon["node"]
    assert node.epsilon is not None
    assert node.spent is not None
    assert node.spent < 0.7 * node.epsilon
    assert f"{epsilon_text(node.spent)} spent" in node.bound("node")
    assert reconcile_books(truth).verdict is not Verdict.VIOLATION


def test_books_find_an_early_stop_that_claims_what_was_spent(tmp_path: Path) -> None:
    import json

    truth = made_by_fedgl(tmp_path, "training.rounds=30", "training.patience=1")
    path = truth.folder.path / "summary.json"
    summary = json.loads(path.read_text())
    for claim in summary["epsilon"].values():
        claim["epsilon"], claim["spent"] = claim["spent"] or claim["epsilon"], None
    path.write_text(json.dumps(summary))
    finding = reconcile_books(truth)
    assert finding.verdict is Verdict.VIOLATION
    assert "may end early" in finding.because
