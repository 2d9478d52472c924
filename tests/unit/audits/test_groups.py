"""Figures by degree, class and client: they show whom an average hides, and nobody alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from attacks.questions import Question
from audits.findings.record import Finding, Group, Verdict
from audits.games.base import BinaryGame, OutcomeGame
from audits.groups import LEAST, exposure_groups, target_exposure, top_ten
from audits.metrics import area_under_curve
from audits.rehearsals.throwaway import new_truth
from audits.truth import Truth
from securefg.foundation.interval import Interval
from securefg.reports.findings_section import describe_coverage, findings_section
from securefg.reports.templating import render_page
from securefg.runs.assembly import prepare
from securefg.site.findings import SiteFindings
from tests.small import config


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    root = tmp_path_factory.mktemp("groups")
    return new_truth(prepare(config(root)), root / "runs")


def binary(ids: np.ndarray, so: np.ndarray, unit: str = "label of a node") -> BinaryGame:
    return BinaryGame(Question(ids=ids), "AUC", unit, so.astype(np.int64))


def same(guess: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (guess == truth).astype(np.float64)


def test_exposures_average_to_the_auc() -> None:
    rng = np.random.default_rng(0)
    so, scores = rng.random(60) < 0.4, rng.normal(size=60).round(1)
    values, said_of = target_exposure(binary(np.arange(60), so), scores)
    assert values[said_of].mean() == pytest.approx(area_under_curve(so.astype(int), scores))


def test_a_class_that_is_exposed_shows_where_the_average_hides_it(truth: Truth) -> None:
    ids = np.arange(truth.graph.num_nodes)
    labels = truth.graph.labels.numpy()
    game = OutcomeGame(
        Question(ids=ids), "share found", "row", np.ones(len(ids)), same, np.zeros(len(ids))
    )
    guess = (labels == 1).astype(np.float64)  # every node of class 1 is found, none of the other
    groups_by_name = {group.name: group for group in exposure_groups(truth, game, guess)}
    assert groups_by_name["class 1"].value.value == 1.0
    assert groups_by_name["class 0"].value.value == 0.0
    assert {group.by for group in groups_by_name.values()} == {"degree", "class", "client"}
    assert sum(g.targets for g in groups_by_name.values() if g.by == "degree") == len(ids)


def test_no_group_of_few_is_told(truth: Truth) -> None:
    ids = truth.experiment.shards[0].node_ids.numpy()[: 2 * LEAST]
    so = np.arange(2 * LEAST) < LEAST - 1  # too few of whom it is so, whatever the group
    assert exposure_groups(truth, binary(ids, so), np.arange(len(ids), dtype=float)) == ()


def test_targets_that_are_no_nodes_have_no_groups(truth: Truth) -> None:
    game = binary(np.arange(40), np.arange(40) < 20, "client")
    assert exposure_groups(truth, game, np.zeros(40)) == ()


def test_edges_are_grouped_by_the_lower_degree_of_their_ends(truth: Truth) -> None:
    pairs = truth.graph.edge_index.numpy().T[:60]
    found = exposure_groups(truth, binary(pairs, np.arange(60) < 30, "edge"), np.ones(60))
    assert {group.by for group in found} == {"degree"}
    assert all(group.value.value == 0.5 for group in found)  # all scores are alike


def test_the_ten_most_exposed_stand_beside_what_chance_gives() -> None:
    rng = np.random.default_rng(1)
    game = binary(np.arange(400), np.arange(400) < 200)
    chance = top_ten(game, rng.normal(size=400))
    assert chance["top_ten"] == pytest.approx(chance["top_ten_prior"], abs=0.03)
    few = rng.normal(size=400)
    few[:10] = 10.0  # ten of two hundred: the AUC hardly moves
    found = top_ten(game, few)
    assert found["top_ten"] == 1.0
    assert found["top_ten"] > found["top_ten_prior"]
    assert top_ten(replace(game, prior_scores=few), few)["top_ten_prior"] == 1.0


def test_the_page_shows_groups_and_no_ids() -> None:
    value = Interval(value=0.9, low=0.8, high=0.95)
    finding = Finding(
        adversary="server",
        attack="similar_links",
        method="m",
        metric="AUC",
        unit="row",
        verdict=Verdict.LEAK,
        because="",
        value=value,
        details={"top_ten": 0.99, "top_ten_prior": 0.95},
        groups=(Group(by="degree", name="degree 1 to 2", targets=7, value=value),),
    )
    page_parts = {
        "findings": findings_section([finding]),
        "tested": describe_coverage([finding]),
        "forest": None,
    }
    page = render_page("findings.html", **page_parts)
    assert "<p>The ten most exposed reach 0.99 on average, where the best ten" in page
    assert "<li>degree 1 to 2: 0.9 (0.8 to 0.95), 7 targets</li>" in page


def test_a_site_shares_no_groups() -> None:
    value = Interval(value=0.9, low=0.8, high=0.95)
    group = Group(by="class", name="class 3", targets=17, value=value)
    finding = Finding(
        adversary="server",
        attack="a",
        method="m",
        metric="",
        unit="row",
        verdict=Verdict.LEAK,
        because="",
        groups=(group,),
    )
    told = SiteFindings("site-1", "run", "hash", "link", (finding,)).statement()
    assert "class 3" not in json.dumps(told)
