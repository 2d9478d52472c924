"""A method declares whether its answers are shown: attacks on answers count only where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks import get_attack
from audits.findings.record import Finding, Verdict
from audits.plan import Plan
from audits.run import audit
from audits.truth import Truth
from audits.unread_fields import AT_HOME
from securefg.methods.registry import get_method
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.runs.epsilons import ANSWERS
from securefg.runs.epsilons import AT_HOME as STAY_AT_HOME
from securefg.runs.folder import RunFolder
from securefg.settings.config import parse_config
from securefg.settings.methods import SHIPPED
from tests.unit.methods.test_two_sums import PRIVATE, tree

OUTSIDER, CLIENT = Adversary("outsider"), Adversary("client", frozenset({0}))
ON_ANSWERS = ("released_edges", "answered_links", "membership_loss", "extraction")
AT_HOME_BY_DECLARATION = {
    *("two_sums", "own_sums", "alone", "mlps", "pseudo_sums", "best_alone", "one_sum")
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory):
    """A private run whose answers stay at home, and one that shows them; each is made once."""
    made: dict[str, RunFolder] = {}

    def find(answers: str) -> RunFolder:
        if answers not in made:
            given = tree(tmp_path_factory.mktemp(answers), privacy={**PRIVATE, "target_epsilon": 1})
            config = parse_config(given, [f"method.answers={answers}"])
            made[answers] = runner.start(config).folder
        return made[answers]

    return find


def audited(folder: RunFolder, *only: str) -> list[Finding]:
    return [f for f in audit(folder.path, Plan(only=only)).findings if f.attack in only]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_method_shows_answers_unless_it_declares_otherwise(name: str) -> None:
    method = get_method(name)
    shown = method.answers_shown(method.settings(name=name))
    assert shown is (name not in AT_HOME_BY_DECLARATION)


def test_answers_at_home_are_in_no_view(folder_of) -> None:
    truth = Truth.of(folder_of("home"))
    for adversary in (OUTSIDER, CLIENT, Adversary("server")):
        view = truth.view(adversary)
        assert view.answers is None
        assert view.query is None
    assert Truth.of(folder_of("shown")).view(OUTSIDER).answers is not None


def test_audit_of_answers_at_home_is_not_applicable(folder_of) -> None:
    found = audited(folder_of("home"), *ON_ANSWERS)
    assert {f.attack for f in found} == set(ON_ANSWERS)
    assert {f.because for f in found} == {AT_HOME}
    assert not any(f.measured or f.failed for f in found)


def test_audit_of_shown_answers_finds_the_edges(folder_of) -> None:
    found = audited(folder_of("shown"), "released_edges")
    assert {f.adversary for f in found} == {"client:0", "outsider"}
    assert {f.verdict for f in found} == {Verdict.LEAK}


def test_release_is_attacked_though_answers_stay_at_home(folder_of) -> None:
    """The model itself is public: an attack that reads the release needs no answers."""
    truth = Truth.of(folder_of("home"))
    others = get_attack("released_others")
    assert truth.spoken.unmet_need(others) is None
    assert set(truth.spoken.released) <= truth.spoken.read_by(others)


@pytest.mark.parametrize(("answers", "words"), [("home", STAY_AT_HOME), ("shown", ANSWERS)])
def test_summary_says_beside_epsilon_who_sees_answers(folder_of, answers, words) -> None:
    claims = folder_of(answers).summary().epsilon.values()
    assert {claim.not_covered for claim in claims} == {(words,)}


def test_answers_setting_changes_the_hash_only_where_shown(tmp_path: Path) -> None:
    default, home, shown = (
        parse_config(tree(tmp_path), overrides).hash
        for overrides in ([], ["method.answers=home"], ["method.answers=shown"])
    )
    assert default == home != shown
