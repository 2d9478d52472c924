"""Two sums of a spoiled federation are found out from the record, by honest code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.findings.record import Verdict
from audits.influence import audit_influences
from audits.recorded import recorded_noise
from audits.truth import Truth
from securefg.methods.two_sums import algorithm as two_sums
from securefg.privacy.defences import distributed_discrete
from securefg.privacy.defences.distributed_discrete import round_rows
from securefg.privacy.stages import clip_l2
from securefg.runs.runner import start
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

SYSTEM = {**PRIVATE, "noise_rng": "system"}
Patch = pytest.MonkeyPatch


def made(root: Path, epsilon: float = 4) -> Truth:
    privacy = {**SYSTEM, "target_epsilon": epsilon}
    changed = ["data.csbm.num_features=1000", "method.scale=4"]
    config = parse_config(tree(root, privacy=privacy), changed)
    return Truth.of(start(config).folder)


def found(truth: Truth) -> dict[str, Verdict]:
    return {f.because.partition(":")[0]: f.verdict for f in recorded_noise(truth)}


def test_an_honest_federation_is_clean(tmp_path: Path):
    truth = made(tmp_path)
    assert set(found(truth).values()) == {Verdict.NOT_DETECTED}
    moved = audit_influences(truth, 0)
    assert {finding.verdict for finding in moved} == {Verdict.NOT_DETECTED}
    assert len(moved) == 4
    assert min(finding.targets for finding in moved) >= 2 * 12
    node, products, edge, links = (finding.details["share_of_declared"] for finding in moved)
    assert edge == 0
    assert 0.3 < min(node, products) <= 1
    assert 0.1 < links <= 1


def one_silo_adds_no_noise(patched: Patch) -> None:
    sound = distributed_discrete._discretise_values

    def silent(rule: Any, values: Any, noise: Any, clients: Any, stream: Any) -> Any:
        if clients.numbers() != [0]:
            return sound(rule, values, noise, clients, stream)
        plan = rule.plan(values)
        units = clip_l2(values, rule.clip_l2, rule.per).reshape(-1, plan.dim).numpy()
        return round_rows(units, plan, noise.generator(clients, (*stream, "rounding")))

    patched.setattr(distributed_discrete, "_discretise_values", silent)


def the_second_sum_has_a_quarter_of_its_noise(patched: Patch) -> None:
    sound = distributed_discrete._discretise_values

    def quartered(rule: Any, values: Any, noise: Any, clients: Any, stream: Any) -> Any:
        if stream[0] == "two_sums.Products":
            rule = replace(rule, noise_multiplier=rule.noise_multiplier / 4)
        return sound(rule, values, noise, clients, stream)

    patched.setattr(distributed_discrete, "_discretise_values", quartered)


def some_numbers_are_bare(patched: Patch) -> None:
    sound = distributed_discrete.sample

    def sample(sigma: float, shape: Any, *random: Any) -> Any:
        drawn = sound(sigma, shape, *random)
        drawn[..., ::40] = 0
        return drawn

    patched.setattr(distributed_discrete, "sample", sample)


def all_silos_draw_the_same_noise(patched: Patch) -> None:
    """It grows with their number and not with its root: more noise, and another law."""
    sound, kept = distributed_discrete.sample, {}

    def sample(sigma: float, shape: Any, *random: Any) -> np.ndarray:
        return kept.setdefault(tuple(shape), sound(sigma, shape, *random))

    patched.setattr(distributed_discrete, "sample", sample)


def one_silo_counts_its_nodes_thrice(patched: Patch) -> None:
    sound = two_sums.Client.handle

    def handle(client: two_sums.Client, request: Any, turn: Any) -> Any:
        reply = sound(client, request, turn)
        if client._shard.client == 0 and isinstance(reply, two_sums.Products):
            return two_sums.Products(products=3 * reply.products)
        return reply

    patched.setattr(two_sums.Client, "handle", handle)


def one_silo_divides_by_less(patched: Patch) -> None:
    sound = two_sums.Client.handle

    def handle(client: two_sums.Client, request: Any, turn: Any) -> Any:
        if client._shard.client == 0:
            client._settings = client._settings.model_copy(update={"scale": 0.5})
        return sound(client, request, turn)

    patched.setattr(two_sums.Client, "handle", handle)


@pytest.mark.parametrize(
    ("spoil", "field", "epsilon"),
    [
        (one_silo_adds_no_noise, "ClassSums.sums", 4),
        (the_second_sum_has_a_quarter_of_its_noise, "Products.products", 4),
        (some_numbers_are_bare, "ClassSums.sums", 4),
        (all_silos_draw_the_same_noise, "ClassSums.sums", 4),
        (one_silo_counts_its_nodes_thrice, "Products.products", 500),
        (one_silo_divides_by_less, "Products.products", 500),
    ],
)
def test_spoiled_sums_are_not_passed_over(
    spoil: Callable[[Patch], None], field: str, epsilon: float, tmp_path: Path, monkeypatch: Patch
):
    """What a silo sends in place of its sum shows where it stands above the noise; one record of a
    few numbers cannot show it below. Less noise shows always."""
    with monkeypatch.context() as patched:
        spoil(patched)
        truth = made(tmp_path, epsilon)
    assert found(truth)[field] is not Verdict.NOT_DETECTED


def test_a_declaration_that_the_runs_own_data_refute_is_a_violation(
    tmp_path: Path, monkeypatch: Patch
):
    """Here noise is as declared, and no other check could see that it is too little."""
    monkeypatch.setattr(two_sums, "neighbour_moves", lambda settings: 1e-3)
    monkeypatch.setattr(two_sums, "moved_by_node", lambda settings, links: 0.3)
    truth = made(tmp_path)
    assert set(found(truth).values()) == {Verdict.NOT_DETECTED}
    _, node, _, edge = audit_influences(truth, 0)
    assert node.verdict is edge.verdict is Verdict.VIOLATION
