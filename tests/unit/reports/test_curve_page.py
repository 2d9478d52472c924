"""A curve's page: whole, self-contained, escaped, and it says what a decision needs."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from audits.curves.page import build_curve_page, render_curve
from securefg.reports.curve_data import Choice, CurveData, Limits, RunRef, Timing
from securefg.reports.words import axis_percent
from tests.unit.reports.made_curves import (
    around,
    bare_curve,
    failed_point,
    lost_curve,
    made_curve,
    point,
)
from tests.unit.reports.made_findings import audited
from tests.unit.reports.outline import Outline
from tests.unit.reports.runs import MakeRun

MADE = {"made": made_curve, "bare": bare_curve, "lost": lost_curve}


def page_of(made: tuple[CurveData, Timing]) -> str:
    return render_curve(*made)


def words_of(page: str) -> str:
    return " ".join(Outline(page).words.split())


def block(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert found
    return found[1]


@pytest.mark.parametrize("name", MADE)
def test_page_is_one_whole_file_that_asks_the_network_for_nothing(name: str) -> None:
    page = page_of(MADE[name]())
    outline = Outline(page)
    inner = {address[1:] for address in outline.addresses if address.startswith("#")}
    outer = {address for address in outline.addresses if not address.startswith("#")}
    assert inner <= set(outline.ids)
    assert all(re.fullmatch(r"runs/[\w-]+/report\.html(#finding-[\w-]+)?", a) for a in outer)
    assert len(outline.ids) == len(set(outline.ids))
    assert not re.search(r"https?:|@import|url\(", page)
    assert "default-src 'none'" in page
    assert len(page) < 400_000


@pytest.mark.parametrize("name", MADE)
def test_headings_have_one_top_and_skip_no_level(name: str) -> None:
    levels = Outline(page_of(MADE[name]())).headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_the_data_block_is_the_data(tmp_path: Path) -> None:
    data, timing = made_curve()
    page = build_curve_page(data, timing, tmp_path / "made.html").read_text()
    assert json.loads(block(page, "data")) == data.model_dump(mode="json", by_alias=True)
    assert CurveData.model_validate_json(block(page, "data")) == data
    assert Timing.model_validate_json(block(page, "timing")) == timing


def test_the_same_data_give_the_same_bytes() -> None:
    assert page_of(made_curve()) == page_of(made_curve())


def test_names_and_reasons_are_escaped() -> None:
    page = page_of(made_curve())
    assert "<CiteSeer>" not in page
    assert "<out>" not in page
    assert "<b>at" not in page
    assert "nFedGNN on &lt;CiteSeer&gt; &amp; co" in page


def test_a_script_in_a_name_cannot_leave_the_data_block() -> None:
    data, timing = made_curve()
    page = page_of((data.model_copy(update={"settings": "</script><script>x()"}), timing))
    assert "<script>x()" not in page
    assert json.loads(block(page, "data"))["settings"] == "</script><script>x()"


def test_the_verdict_comes_first_with_the_limits() -> None:
    words = words_of(page_of(made_curve()))
    per = "per the unit that each setting names"
    limits = f"a promised epsilon of at most 8, {per} and no attack that may gain more than 0.3"
    assert words.index(limits) < words.index("What protection costs")
    assert "Noise at each client, ε = 8 per row" in words
    assert words.count("NONE YET Closest: ") == 2, "a choice that fails a condition does not stand"


def test_a_limit_on_accuracy_is_told() -> None:
    words = words_of(page_of(made_curve(Limits(epsilon=8, accuracy=0.5))))
    assert "each setting names and a score of at least 50.0%" in words
    per_node = words_of(page_of(made_curve(Limits(epsilon=8, unit="node"))))
    assert "a promised epsilon of at most 8 per node." in per_node


def test_without_limits_the_page_says_so() -> None:
    assert "No limits were set" in words_of(page_of(made_curve(Limits())))


def test_what_is_missing_for_a_recommendation_is_on_the_card() -> None:
    made, timing = made_curve()
    missing = ("3 seeds", "a <b>: `securefg curve x<y`")
    lacking = Choice(series=made.series[0].name, point=None, words="none", missing=missing)
    words = words_of(page_of((made.model_copy(update={"choices": (lacking,)}), timing)))
    assert "NONE YET" in words
    assert "What is missing 3 seeds" in words
    page = page_of((made.model_copy(update={"choices": (lacking,)}), timing))
    assert "<li>a &lt;b&gt;: <code>securefg curve x&lt;y</code></li>" in page


def test_a_choice_whose_accuracy_is_hardly_known_says_so() -> None:
    data, timing = made_curve()
    assert "run more of them" not in words_of(page_of((data, timing)))
    wide = tuple(
        p.model_copy(update={"accuracy": around(p.accuracy.value, 0.4)}) if p.accuracy else p
        for p in data.points
    )
    words = words_of(page_of((data.model_copy(update={"points": wide}), timing)))
    assert "3 seeds fix the accuracy to ±40 points only" in words


def test_failed_points_stand_above_the_verdict_with_their_reason() -> None:
    page = page_of(made_curve())
    notice = page.index("1 of 10 points failed")
    assert notice < page.index('id="verdict"')
    assert "RuntimeError: &lt;out&gt; of memory" in page[notice : notice + 400]
    assert 'class="drop"' in page
    assert "points failed" not in page_of(bare_curve())


def test_a_curve_of_failures_alone_has_a_page() -> None:
    words = words_of(page_of(lost_curve()))
    assert "1 of 1 points failed and is missing below" in words
    assert "No point was run to its end" in words


def test_violations_are_red_and_told_of_at_the_top() -> None:
    page = page_of(made_curve())
    assert page.index("1 promise was found broken") < page.index('id="verdict"')
    assert len(re.findall(r'class="point s4 bad"', page)) == 1
    assert "refuted" in page
    data, timing = made_curve()
    healed = tuple(
        p.model_copy(update={"violations": (), "epsilon_lower": 0.1}) if p.violations else p
        for p in data.points
    )
    sound = page_of((data.model_copy(update={"points": healed}), timing))
    assert 'class="point s4 bad"' not in sound
    assert "refuted" not in words_of(sound).replace("it refutes", "")


def test_a_bound_above_its_claim_is_red_even_without_a_verdict() -> None:
    data, timing = bare_curve()
    above = point("tiny", "local_gaussian", 4.0, 2, epsilon_lower=4.1)
    assert 'class="point s3 bad"' in page_of(
        (data.model_copy(update={"points": (*data.points, above)}), timing)
    )


def test_every_attack_and_adversary_has_its_panel_and_what_has_none_is_named() -> None:
    words = words_of(page_of(made_curve()))
    for title in (
        "Similar links, by the server",
        "Membership loss, by client 3",
        "Row sizes, by clients 1, 5 together",
    ):
        assert title in words
    named = "Not measured at any setting: membership loss by whoever gets the model"
    assert f"{named} (no positive control)" in words


def test_every_point_leads_to_a_row_with_its_runs() -> None:
    data, _ = made_curve()
    page = page_of(made_curve())
    for number, one in enumerate(data.points, 1):
        row = re.search(rf'<tr id="point-{number}">(.*?)</tr>', page, re.S)
        assert row
        for run in one.runs:
            assert f'href="runs/{run.folder}/report.html"' in row[1]


def test_levels_lead_to_their_runs() -> None:
    data, timing = made_curve()
    run = RunRef(folder="central-s0-abc", seed=0, config_hash="abc")
    series = data.series[0].model_copy(update={"centralised_runs": (run,)})
    page = page_of((data.model_copy(update={"series": (series, *data.series[1:])}), timing))
    assert 'href="runs/central-s0-abc/report.html"' in page


def test_every_figure_has_its_numbers_in_a_table() -> None:
    page = page_of(made_curve())
    figures = re.findall(r"<figure.*?</figure>", page, re.S)
    assert len(figures) == 2 * 2 + 4 * 2 + 2 + 3 * 2
    assert all("<table>" in figure and 'data-save="csv"' in figure for figure in figures)


def test_every_point_of_a_drawing_can_be_reached_and_says_its_numbers() -> None:
    page = page_of(made_curve())
    points = re.findall(r'<a class="point[^>]*>', page)
    assert len(points) > 60
    assert all("href=" in p and 'aria-label="' in p for p in points)
    assert re.search(r'aria-label="Noise at each client, ε.=.8 per.row; accuracy 50\.4%', page)


def test_intervals_of_accuracies_stay_within_0_and_1() -> None:
    data, timing = bare_curve()
    wide = data.points[0].model_copy(update={"accuracy": around(0.9, 0.5), "accuracies": ()})
    words = words_of(page_of((data.model_copy(update={"points": (wide,)}), timing)))
    assert "90.0%" in words
    assert "140.0%" not in words


def test_runs_beside_the_page_get_their_own_where_it_is_missing(
    make_run: MakeRun, tmp_path: Path
) -> None:
    data, timing = bare_curve()
    run = tmp_path / "runs" / data.points[0].runs[0].folder
    shutil.copytree(make_run().path, run, ignore=shutil.ignore_patterns("report.html"))
    build_curve_page(data, timing, tmp_path / "bare.html")
    report = run / "report.html"
    assert "Not audited yet" in report.read_text()
    before = report.stat().st_mtime_ns
    build_curve_page(data, timing, tmp_path / "bare.html")
    assert report.stat().st_mtime_ns == before
    audited(run)
    build_curve_page(data, timing, tmp_path / "bare.html")
    assert "Not audited yet" not in report.read_text()


def test_a_run_whose_page_cannot_be_made_does_not_stop_the_curves(tmp_path: Path) -> None:
    data, timing = bare_curve()
    run = tmp_path / "runs" / data.points[0].runs[0].folder
    run.mkdir(parents=True)
    (run / "summary.json").write_text("{}")
    with pytest.warns(UserWarning, match="gets no page: .* expected a run's folder"):
        page = build_curve_page(data, timing, tmp_path / "bare.html")
    assert page.is_file()


def test_two_hundred_points_fit_into_six_megabytes() -> None:
    data, timing = made_curve()
    name = data.series[0].name
    many = tuple(point(name, "local_gaussian", 1.05**k, k) for k in range(200))
    many += (failed_point(name, "secagg", 3.0, "x"),)
    page = page_of((data.model_copy(update={"points": many, "choices": ()}), timing))
    assert len(page) < 6_000_000


def test_ticks_closer_than_a_point_are_told_apart() -> None:
    assert [axis_percent(share) for share in (0.84, 0.845, 0.85)] == ["84%", "84.5%", "85%"]


@pytest.mark.parametrize("score", ["accuracy", "average precision"])
def test_page_names_the_monitored_score_everywhere(score: str) -> None:
    """Axes, tables, tooltips, labels and the title name the score that the runs monitor."""
    data, timing = made_curve()
    points = tuple(p.model_copy(update={"score": score}) for p in data.points)
    choices = tuple(c.model_copy(update={"words": "as found"}) for c in data.choices)
    page = render_curve(data.model_copy(update={"points": points, "choices": choices}), timing)
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    scores = set(re.findall(r"accuracy|average precision", shown, re.I))
    assert {found.lower() for found in scores} == {score}
    assert "accurate" not in shown
    assert f">test {score}<" in shown
    assert f"{score.capitalize()} against epsilon" in shown
    assert f"Leakage against {score}" in shown
    assert f"{score} 4" in shown or f"{score} 6" in shown  # a tooltip with its figure


def test_page_of_series_with_different_scores_calls_them_scores() -> None:
    data, timing = made_curve()
    first = data.series[0].name
    points = tuple(
        p.model_copy(update={"score": "macro f1"}) if p.series == first else p for p in data.points
    )
    page = render_curve(data.model_copy(update={"points": points}), timing)
    shown = words_of(page)
    assert "Macro f1 against epsilon" in shown
    assert "Accuracy against epsilon" in shown
    assert "score and leakage against epsilon" in shown
    assert ">Score</th>" in page
