"""The verdict says what the ledger allows, per unit, and never more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from securefg.reports.headline import make_headline
from securefg.reports.results import read_results
from securefg.reports.verdicts import Verdict, chance_to_distinguish, list_verdicts
from securefg.runs.folder import RunFolder
from tests.unit.reports.runs import NOISE, MakeRun
from tests.unit.runs.written_over import end_so


def verdicts_of(folder: RunFolder) -> dict[str, Verdict]:
    return {verdict.unit: verdict for verdict in list_verdicts(read_results(folder))}


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


Notices = Sequence[tuple[str, str]]


def others(notices: Notices) -> Notices:
    """Without the notice that a model of two rounds on a few nodes has learnt nothing."""
    return [(title, text) for title, text in notices if not title.startswith("No better than")]


def notices_of(folder: RunFolder) -> list[str]:
    return [title for title, _ in others(make_headline(read_results(folder)).notices)]


def test_plain_run_is_infinite_and_names_its_fields(make_run: MakeRun) -> None:
    verdict = verdicts_of(make_run())["client"]
    assert (verdict.tone, verdict.symbol) == ("open", "ε = ∞")
    assert "infinite" in verdict.sentence
    assert "Update.weights" in verdict.fields


def test_noised_run_has_a_bound_per_unit(make_run: MakeRun) -> None:
    verdicts_by_unit = verdicts_of(make_run(*NOISE))
    assert verdicts_by_unit["row"].tone == "bounded"
    assert verdicts_by_unit["row"].sentence.startswith("Epsilon = ")
    assert "at delta 1e-5 per row: one row replaced" in verdicts_by_unit["row"].sentence
    assert verdicts_by_unit["client"].fields == ()


def test_useless_bound_is_said_to_be_one(make_run: MakeRun) -> None:
    verdict = verdicts_of(make_run(*NOISE, "privacy.noise_multiplier=0.2"))["client"]
    assert verdict.tone == "weak"
    assert "hardly protects" in verdict.meaning


def test_run_that_sends_nothing_private_has_nothing_to_bound(make_run: MakeRun) -> None:
    verdict = verdicts_of(make_run("method={name: alone}"))["client"]
    assert (verdict.tone, verdict.symbol) == ("silent", "ε = 0")


def test_units_are_judged_apart(spoilt: RunFolder) -> None:
    claim = {"epsilon": 2.5, "delta": 1e-6, "private": True, "because": []}
    infinite = {**claim, "epsilon": None, "because": ["Update.num_nodes"]}
    change(spoilt.path / "summary.json", epsilon={"client": infinite, "row": claim})
    *_, last = spoilt.metrics()
    told = {**last, "epsilon": {"client": None, "row": 2.5}}
    spoilt.metrics_path.write_text(json.dumps(told) + "\n")
    end_so(spoilt.path)
    found = verdicts_of(spoilt)
    assert found["client"].tone == "open"
    assert found["row"].symbol == "ε = 2.50"


def test_seeded_noise_is_void_and_said_loudly(make_run: MakeRun) -> None:
    folder = make_run(*NOISE, "privacy.noise_rng=seeded")
    assert {verdict.tone for verdict in verdicts_of(folder).values()} == {"void"}
    assert notices_of(folder) == ["Seeded noise does not protect"]


def test_good_run_has_no_notice(make_run: MakeRun) -> None:
    assert notices_of(make_run()) == []


def test_resumed_run_says_after_which_round(spoilt: RunFolder) -> None:
    change(spoilt.path / "summary.json", attempts=2)
    lines = [{"attempt": 1, "after_round": 0}, {"attempt": 2, "after_round": 7}]
    (spoilt.path / "attempts.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    end_so(spoilt.path)
    ((title, text),) = others(make_headline(read_results(spoilt)).notices)
    assert title == "This run took 2 attempts"
    assert "after round 7" in text


def test_accuracy_is_defined_by_what_was_scored(make_run: MakeRun) -> None:
    together = make_headline(read_results(make_run())).definition
    alone = make_headline(read_results(make_run("method={name: alone}"))).definition
    assert "test nodes of the union graph" in together
    assert "Every party's own model" in alone


def test_chance_follows_the_gaussian_trade_off(make_run: MakeRun) -> None:
    # 3 rounds of 3 fields with z = 2: mu = sqrt(9) / 2 and Phi(mu / 2) = Phi(0.75).
    booked = read_results(make_run(*NOISE)).booked
    assert chance_to_distinguish(booked, "row", 50.0, 1e-5) == pytest.approx(0.773373, abs=1e-6)


def test_chance_is_never_above_what_epsilon_allows(make_run: MakeRun) -> None:
    booked = read_results(make_run(*NOISE)).booked
    assert chance_to_distinguish(booked, "client", 0.0, 0.0) == 0.5
