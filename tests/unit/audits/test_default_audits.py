"""A curve's page is green only if the default audit of its runs reports no LEAK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from audits.curves import conditions, recommend
from audits.curves.collect import _pool_leaks
from audits.curves.command import CurveOutcome, draw_curve
from audits.curves.plan import Asked, plan_curve
from audits.curves.settings import load_curve
from audits.findings.record import Verdict
from audits.findings.stored import read_findings
from audits.plan import Plan
from securefg.foundation.errors import ConfigError
from securefg.runs.folder import RunFolder
from securefg.sweep import pool
from tests.forks import fork_worker
from tests.unit.audits.test_curve_green import ATTACKS, found_by, is_green, page, point
from tests.unit.methods.test_two_sums import tree

REASON = "an edge within a silo is no secret to the people of this study"
WEAK = {"summed_labels": "too few targets in a graph of 300 nodes"}
NOISE = {
    "name": "distributed_discrete",
    "epsilon": [0.05],
    "privacy": {"unit": "node", "secure_aggregation": {"dropout": 0, "corrupt": 0}},
}
Drawn = Callable[..., CurveOutcome]
NOT_JUDGED = conditions.Condition("met", "Worth having", "not judged here")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    """Curves of one private run each, which asks for one attack by the server.

    A graph this small is worth nothing and shows gains only roughly. Its score is therefore not
    judged, one seed is enough, and every gain within reach of the attack is accepted.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "launch", fork_worker)
        patch.setattr(recommend, "LEAST_SEEDS", 1)
        patch.setattr(recommend, "_worth_objections", lambda point: [])
        patch.setattr(conditions, "LEAST_SEEDS", 1)
        patch.setattr(conditions, "_check_worth", lambda point, other, level: NOT_JUDGED)

        def draw(answers: str, **exclude: str) -> CurveOutcome:
            folder = tmp_path_factory.mktemp("curve")
            (folder / "run.yaml").write_text(yaml.safe_dump(tree(folder / "unused")))
            sweep = {
                "config": "run.yaml",
                "label": "small",
                "set": ["audit.leak_threshold=1", f"method.answers={answers}"],
                "defences": [NOISE],
                "attacks": ["summed_moments"],
                "exclude": {**WEAK, **exclude},
            }
            curve = {"sweeps": [sweep], "seeds": 1, "trials": 1000}
            limits = {"epsilon": 2, "leak_gain": 1}
            (folder / "small.yaml").write_text(yaml.safe_dump({**curve, "limits": limits}))
            return draw_curve(folder / "small.yaml", folder, 1)

        yield draw


def test_page_is_green_where_answers_stay_at_home(drawn: Drawn) -> None:
    outcome = drawn("home")
    (choice,) = outcome.data.choices
    (green_point,) = outcome.data.points
    assert choice.point is not None, (choice.words, choice.missing)
    assert green_point.default_leaks == ()
    text = outcome.page.read_text()
    assert is_green(text)
    assert WEAK["summed_labels"] in text
    # Attacks that nobody asked for were run, from the places of a default audit.
    assert {"summed_both", "released_others"} <= {leak.attack for leak in green_point.leaks}
    assert "outsider" in {leak.adversary for leak in green_point.leaks}


def test_page_is_not_green_where_shown_answers_leak_whatever_is_excluded(drawn: Drawn) -> None:
    outcome = drawn("shown", released_edges=REASON)
    (choice,) = outcome.data.choices
    (leaky_point,) = outcome.data.points
    assert choice.point is None
    assert leaky_point.default_leaks is not None
    assert any(
        words.startswith("released_edges by outsider") for words in leaky_point.default_leaks
    )
    assert "released_edges" not in {leak.attack for leak in leaky_point.leaks}
    text = outcome.page.read_text()
    assert not is_green(text)
    assert REASON in text
    assert "answers for nodes, which are shown to others" in text
    folder = RunFolder.open(outcome.page.parent / "runs" / leaky_point.runs[0].folder)
    stored = read_findings(folder.path / "audit" / "findings.json")
    assert Verdict.LEAK in {f.verdict for f in stored if f.attack == "released_edges"}


def test_page_without_default_audit_is_not_green() -> None:
    whole = point(_pool_leaks(found_by(ATTACKS, 3), Asked(ATTACKS, ("server",))))
    assert is_green(page([whole]))
    assert not is_green(page([whole.model_copy(update={"default_leaks": None})]))


def test_page_with_a_leak_in_one_default_audit_is_not_green() -> None:
    whole = point(_pool_leaks(found_by(ATTACKS, 3), Asked(ATTACKS, ("server",))))
    words = "answered_links by outsider is LEAK in the audit of seed 2"
    text = page([whole.model_copy(update={"default_leaks": (words,)})])
    assert not is_green(text)
    assert "answered_links by outsider is LEAK" in text


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({"verdict": Verdict.INCONCLUSIVE}, False),
        ({"verdict": Verdict.INCONCLUSIVE, "failed": True}, True),
    ],
)
def test_excluded_attack_counts_where_it_broke_off(changes: dict, counted: bool) -> None:
    audits = found_by((*ATTACKS, "vocabulary"), 3)
    audits[1][-1] = audits[1][-1].model_copy(update=changes)
    asked = Asked(ATTACKS, ("server",), excluded=frozenset({"vocabulary"}))
    leaks = _pool_leaks(audits, asked)
    assert ("vocabulary" in {leak.attack for leak in leaks}) is counted
    assert is_green(page([point(leaks)])) is not counted


def test_attack_that_fits_and_was_not_asked_for_counts() -> None:
    audits = found_by((*ATTACKS, "vocabulary"), 3)
    assert is_green(page([point(_pool_leaks(audits, Asked(ATTACKS, ("server",))))]))
    unsound = {"verdict": Verdict.INCONCLUSIVE, "null_at_chance": False}
    audits[1][-1] = audits[1][-1].model_copy(update=unsound)
    assert not is_green(page([point(_pool_leaks(audits, Asked(ATTACKS, ("server",))))]))


def test_attack_that_does_not_fit_counts_only_if_asked_for() -> None:
    unmet = {"verdict": Verdict.INCONCLUSIVE, "measured": False, "gain": None}
    audits = found_by((*ATTACKS, "vocabulary"), 3)
    for findings in audits:
        findings[-1] = findings[-1].model_copy(update=unmet)
    assert is_green(page([point(_pool_leaks(audits, Asked(ATTACKS, ("server",))))]))
    asked = Asked((*ATTACKS, "vocabulary"), ("server",))
    assert not is_green(page([point(_pool_leaks(audits, asked))]))


@pytest.mark.parametrize(
    ("exclude", "words"),
    [
        ({"drift": "  "}, "exclude.drift: found no reason; expected one"),
        ({"drift": None}, "exclude.drift"),
        ({"telepathy": "nobody can"}, "found 'telepathy'"),
        ({"vocabulary": "asked for as well"}, "exclude.vocabulary: found under `attacks` too"),
    ],
)
def test_curve_config_with_a_bad_exclusion_is_refused(
    tmp_path: Path, exclude: dict, words: str
) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(tree(tmp_path / "unused")))
    sweep = {
        "config": "run.yaml",
        "defences": [{"name": "none"}],
        "attacks": ["vocabulary"],
        "exclude": exclude,
    }
    (tmp_path / "curve.yaml").write_text(yaml.safe_dump({"sweeps": [sweep]}))
    with pytest.raises(ConfigError, match=r".") as error:
        plan_curve(load_curve(tmp_path / "curve.yaml"), tmp_path / "curve.yaml")
    assert words in str(error.value)


def test_default_attacks_plan_keeps_terms_and_leaves_promises_out() -> None:
    plan = Plan(only=("drift", "promises"), adversaries=("client:3",), trials=1000)
    default = plan.default_attacks
    assert {attack.name for attack in default.attacks} == {a.name for a in Plan().attacks}
    assert default.adversaries == ()
    assert default.trials == 1000
    assert not default.promises
    assert not default.whole
    assert default.asked == "every attack"
