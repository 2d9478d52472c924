"""What no attack read, whose place none took and whose needs were not met is said, not skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import get_attack
from attacks.base import Attack, Need
from attacks.questions import ClientLinks
from audits.findings.record import COVERAGE, Verdict
from audits.games import load_game
from audits.plan import Plan
from audits.unread_fields import Spoken, unread_findings, untaken_findings
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import only_known_modules
from securefg.protocol.meanings import (
    Answers,
    GraphSums,
    NodeRows,
    Other,
    Predictions,
    Public,
    Weights,
)

MODEL, FIRST, SECOND = ("m.Update", "weights"), ("m.Update", "first"), ("m.Update", "second")
ODD, CLAIMED = ("m.Update", "odd"), ("m.Update", "mask")
KNOWN = ("m.Model", "mask")
SENT, RELEASED = ("m.Start", "weights"), ("m.Model", "weights")
SPOKEN = Spoken(
    uploads={
        MODEL: Weights("network", change=True),
        FIRST: NodeRows("hidden", "nodes"),
        SECOND: NodeRows("final", "nodes"),
        ODD: Other("a number of its own"),
        CLAIMED: Public("what may be sent"),
    },
    sent={SENT: Weights("network", change=False)},
    released={RELEASED: Weights("network", change=False), KNOWN: Public("what may be sent")},
    answers=True,
)


def attack(*needs: Need, hears: tuple[Need, ...] = ()) -> Attack:
    return Attack(
        name="made",
        summary="",
        source="",
        needs=needs,
        hears=hears,
        assumes="",
        adversaries=frozenset({"server"}),
        question=ClientLinks,
        floor=0.1,
        expected="",
        run=lambda view, question, rng: np.zeros(len(question.ids)),
    )


def named(*attacks: Attack) -> set[str]:
    played = [(attack, "server") for attack in attacks]
    return {finding.metric for finding in unread_findings(SPOKEN, played, "made")}


def test_without_an_attack_every_upload_and_release_is_unread() -> None:
    unread = unread_findings(SPOKEN, [], "made")
    assert {finding.metric for finding in unread} == {
        "m.Update.weights",
        "m.Update.first",
        "m.Update.second",
        "m.Update.odd",
        "m.Update.mask",
        "m.Model.weights",
    }
    assert all(finding.verdict is Verdict.INCONCLUSIVE for finding in unread)
    assert not any(finding.measured for finding in unread)
    assert {finding.attack for finding in unread} <= COVERAGE
    by = {finding.metric: finding.adversary for finding in unread}
    assert by["m.Model.weights"] == "outsider"
    assert by["m.Update.weights"] == "server"


def test_what_is_public_or_sent_down_as_it_is_released_needs_no_reader() -> None:
    assert not {"m.Model.mask", "m.Start.weights"} & named()


def test_an_upload_that_claims_to_be_public_is_unread_all_the_same() -> None:
    assert "m.Update.mask" in named(attack(Weights("network")), attack(Answers()))


def test_an_attack_reads_the_first_field_that_fits_and_no_other() -> None:
    assert SPOKEN.read_by(attack(NodeRows(index="nodes"))) == {FIRST}
    assert SPOKEN.read_by(attack(NodeRows("final"), Weights())) == {SECOND, MODEL}
    assert "m.Update.second" in named(attack(NodeRows()))
    assert "m.Update.second" not in named(attack(NodeRows()), attack(NodeRows("final")))


def test_of_several_that_are_enough_the_first_that_is_there_is_read() -> None:
    assert SPOKEN.read_by(attack((Predictions(), NodeRows("final"), Weights()))) == {SECOND}


def test_what_is_released_beside_the_model_is_not_read_by_asking_the_model() -> None:
    beside = {("m.Model", "links"): Other("links of everybody"), ("m.Model", "rows"): NodeRows()}
    spoken = replace(SPOKEN, released={**SPOKEN.released, **beside})

    def left(*attacks: Attack) -> set[str]:
        found = unread_findings(spoken, [(one, "outsider") for one in attacks], "made")
        return {f.metric for f in found if f.adversary == "outsider"}

    assert left(attack(Answers())) == {"m.Model.links", "m.Model.rows"}
    assert left(attack(Answers()), attack(NodeRows())) == {"m.Model.links"}
    assert left(attack(Answers(), hears=(NodeRows(),))) == {"m.Model.links"}


def test_answers_are_of_the_released_model() -> None:
    assert SPOKEN.read_by(attack(Answers())) == {RELEASED, KNOWN}
    silent = Spoken(SPOKEN.uploads, SPOKEN.sent, SPOKEN.released, answers=False)
    assert silent.read_by(attack(Answers())) == set()
    assert silent.unmet_need(attack(Answers())) == "no upload or answer of this run holds answers"


def test_no_attack_reads_what_has_no_word() -> None:
    every = [attack(need) for need in (Weights(), NodeRows("hidden"), NodeRows("final"), Answers())]
    assert named(*every) == {"m.Update.odd", "m.Update.mask"}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (attack(Weights(), NodeRows("final"), hears=(Weights(),)), None),
        (attack((Predictions(), Weights())), None),
        (
            attack(Weights(), Predictions()),
            "no upload or answer of this run holds predictions",
        ),
        (attack(Weights(change=False)), "weights (change False)"),
        (attack(Weights(), hears=(NodeRows(),)), "nothing that the server sends holds node rows"),
        (attack(hears=(Weights(change=True),)), "nothing that the server sends holds weights"),
    ],
)
def test_an_unmet_need_is_named(made: Attack, words: str | None) -> None:
    reason = SPOKEN.unmet_need(made)
    assert (reason is None) if words is None else (words in str(reason))


def test_every_place_that_nobody_took_is_named() -> None:
    assert [f.adversary for f in untaken_findings([], "made")] == [
        "server",
        "client",
        "outsider",
        "wire",
    ]
    left = untaken_findings(["server", "client:3,5"], "made")
    assert [finding.adversary for finding in left] == ["outsider", "wire"]
    assert all(finding.verdict is Verdict.INCONCLUSIVE for finding in left)
    assert not any(finding.measured for finding in left)
    assert untaken_findings(["server", "client:0", "outsider", "wire"], "made") == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"question": "client_links"}, "question: found 'client_links'; expected a type"),
        ({"adversaries": frozenset({"hacker"})}, "adversaries: found hacker; allowed: server"),
        ({"adversaries": frozenset()}, "adversaries: found nobody"),
        ({"needs": ("weights",)}, "needs and hears are meanings .*found 'weights'"),
        ({"hears": (("weights", Weights()),)}, "needs and hears are meanings"),
    ],
)
def test_an_attack_that_says_no_meaning_or_place_is_bad_input(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"attack made: {message}"):
        replace(attack(), **wrong)


def test_the_game_of_an_attack_that_the_user_names_is_trusted_as_the_attack_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_attack.py").write_text(
        "from dataclasses import dataclass, replace\n"
        "from attacks.membership import MEMBERSHIP_LOSS\n"
        "from attacks.questions import Membership\n"
        "@dataclass(frozen=True)\n"
        "class Named(Membership, name='named', played_in='named_game'):\n    pass\n"
        "ATTACK = replace(MEMBERSHIP_LOSS, name='named_attack', question=Named)\n"
    )
    (tmp_path / "named_game.py").write_text(
        "from audits.games.base import plays\nfrom named_attack import Named\n"
        "@plays(Named)\ndef named(truth, adversary, rng):\n    raise NotImplementedError\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Plan(only=("named_attack",))
    with only_known_modules():
        game = load_game(get_attack("named_attack").question)
    assert game.make.__module__ == "named_game"


def test_an_outsider_reads_no_upload() -> None:
    played = [(attack(Weights("network")), "outsider"), (attack(Answers()), "outsider")]
    left = {finding.metric for finding in unread_findings(SPOKEN, played, "made")}
    assert "m.Update.weights" in left
    assert "m.Model.weights" not in left


def test_what_a_client_is_sent_of_others_is_unread_until_a_client_reads_it() -> None:
    sums = ("m.Sums", "context")
    spoken = replace(SPOKEN, sent={**SPOKEN.sent, sums: GraphSums(NodeRows("hidden"))})

    def left(*played: tuple[Attack, str]) -> dict[str, str]:
        return {f.metric: f.adversary for f in unread_findings(spoken, played, "made")}

    reads = attack(hears=(GraphSums(),))
    assert left()["m.Sums.context"] == "client"
    assert "m.Sums.context" in left((reads, "server"), (attack(Answers()), "client:0"))
    assert "m.Sums.context" not in left((reads, "client:3,5"))


def test_a_client_reads_no_upload_of_others() -> None:
    left = {
        f.metric for f in unread_findings(SPOKEN, [(attack(NodeRows("final")), "client:0")], "made")
    }
    assert "m.Update.second" in left
