"""Every sentence about a finding says only what the game of the attack measured, for every game."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from attacks import get_active, get_attack, load_active_attacks, load_shipped_attacks
from attacks.base import AnyAttack
from attacks.questions import Question
from audits.answer.model import Level
from audits.answer.remedies import MASKS, clauses_of, kinds_named, other_clauses
from audits.answer.sentences import finding_sentence
from audits.findings.record import Finding, Verdict
from audits.games import load_game
from audits.games import shipped_questions as shipped_games
from audits.games.base import BinaryGame
from audits.groups import picked_targets
from securefg.foundation.interval import Interval
from securefg.reports.findings_section import worst_sentence

NOT_MEASURED = re.compile(r"\b(people|persons?|customers?|patients?|names?|named|naming)\b", re.I)
# A node stands for a person in what an attack declares; that one was named or treated is a claim.
NOT_DECLARED = re.compile(
    r"\b(customers?|patients?|clinic|bank|diagnos\w+|names?|named|naming|every|whole record"
    r"|entry by entry|number by number|edge by edge|exactly)\b",
    re.I,
)
# Only a game that scores single guesses of a list measures who somebody is.
MEASURES_IDENTITY = {"candidate_rows", "identify", "public_candidates"}
IDENTITY = re.compile(r"\bwhich (?:person|entry)\b", re.I)
TRAINING = re.compile(r"\btrain\w*", re.I)

# The truth of these games is whether, or on what, somebody trained.
MEASURES_TRAINING = {
    "counted_labels",
    "isolated_samples",
    "labelled_nodes",
    "matched_samples",
    "member_samples",
    "membership",
    "others_labels",
    "others_members",
    "public_members",
    "released_others",
    "summed_both",
    "summed_features",
    "summed_labels",
    "summed_moments",
    "trained_members",
    "trained_samples",
    "training_labels",
    "training_samples",
}
COUNTS: tuple[dict[str, float], ...] = (
    {},
    {"picked": 7.0, "picked_of": 9.0, "picked_false_alarms": 0.05},
    {"exact_rows": 0.5},
    {"precision_at_num_edges": 0.5, "share_of_edges": 0.1},
)


def texts(node: ast.expr) -> list[str]:
    """Return every text that an expression of constants, f-strings and conditions can have."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    assert isinstance(node, ast.JoinedStr), ast.dump(node)
    parts = [p.value if isinstance(p, ast.Constant) else "x" for p in node.values]
    return ["".join(map(str, parts))]


def named_texts(function: ast.AST, name: str) -> list[str]:
    """Return the texts that a function gives to `metric` or `unit`."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    given = [word.value for call in calls for word in call.keywords if word.arg == name]
    return [text for value in given for text in texts(value)]


@cache
def measured() -> dict[str, list[tuple[str, str]]]:
    """Return (metric, unit) by game; a game without texts takes those of functions it calls."""
    units_by_game = {}
    for name, question in shipped_games().items():
        functions = [parsed(load_game(question).make)]
        functions += [parsed(function) for function in names_in(load_game(question).make)]
        pairs = [(named_texts(tree, "metric"), named_texts(tree, "unit")) for tree in functions]
        metrics, units = next((pair for pair in pairs if pair[0]), ([], []))
        units_by_game[name] = [(m, u) for m in metrics for u in units or ["row"]]
    return units_by_game


def parsed(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(inspect.getsource(function))


def names_in(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the functions of the games that this one names."""
    known = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [f for f in known if inspect.isfunction(f) and f.__module__.startswith("audits.games.")]


def test_every_game_is_a_function_with_the_name_of_its_question() -> None:
    made = {name: load_game(question).make for name, question in shipped_games().items()}
    assert {name: make.__name__ for name, make in made.items() if make.__name__ != name} == {}


def sentences(game: str, attack: str) -> Iterator[str]:
    for metric, unit in measured().get(game, []):
        for details in COUNTS:
            reached = Interval(value=0.9, low=0.8, high=1.0)
            yield worst_sentence(
                [
                    Finding(
                        adversary="server",
                        attack=attack,
                        method="m",
                        metric=metric,
                        unit=unit,
                        verdict=Verdict.LEAK,
                        because="",
                        value=reached,
                        gain=reached,
                        prior=reached,
                        targets=20,
                        details=details,
                    )
                ]
            )


def attacks_by_game() -> list[tuple[str, str]]:
    attacks = [get_attack(name) for name in load_shipped_attacks()] + [
        get_active(name) for name in load_active_attacks()
    ]
    return [(attack.question.name, attack.name) for attack in attacks]


def test_games_of_all_attacks_say_what_they_measure() -> None:
    assert {game for game, _ in attacks_by_game()} == {
        name for name, found in measured().items() if found
    }
    assert len(measured()) >= 30


def claims_more(game: str, sentence: str) -> bool:
    """Tell if a sentence speaks of people, or of training that the game did not measure."""
    training = game not in MEASURES_TRAINING and TRAINING.search(sentence)
    return bool(NOT_MEASURED.search(sentence) or training)


def test_sentences_of_games_mention_only_what_was_measured() -> None:
    offenders = []
    for game in measured():
        attacks = [name for other, name in attacks_by_game() if other == game]
        for attack in attacks or ["attack"]:
            offenders += [s for s in sentences(game, attack) if claims_more(game, s)]
    assert offenders == []


def test_exposures_of_attacks_mention_training_only_if_measured() -> None:
    texts = {(game, name): attack_named(name).exposes for game, name in attacks_by_game()}
    assert len(texts) > 50
    assert [
        name
        for (game, name), text in texts.items()
        if game not in MEASURES_TRAINING and TRAINING.search(text)
    ] == []


def attack_named(name: str) -> Any:
    return get_attack(name) if name in load_shipped_attacks() else get_active(name)


def test_claims_more_finds_people_and_training() -> None:
    assert claims_more("membership", "It names 3 of 9 customers.")
    assert claims_more("links", "It finds 3 of 9 rows in training.")
    assert not claims_more("membership", "It finds 3 of 9 rows in training.")


def declared(name: str) -> AnyAttack:
    return get_attack(name) if name in load_shipped_attacks() else get_active(name)


def test_exposures_of_attacks_claim_only_what_their_games_score() -> None:
    offenders = []
    for game, name in attacks_by_game():
        exposes = declared(name).exposes
        named = IDENTITY.search(exposes) and game not in MEASURES_IDENTITY
        if NOT_DECLARED.search(exposes) or named or declared(name).question.secret is None:
            offenders.append((name, exposes))
    assert offenders == []


def test_sentences_of_attacks_have_their_metric_and_figures() -> None:
    for game, name in attacks_by_game():
        attack = declared(name)
        for metric, unit in measured()[game]:
            for adversary in sorted(attack.adversaries):
                for level in Level:
                    sentence = answered(attack, adversary, metric, unit, level)
                    assert sentence[0].isupper(), sentence
                    assert sentence.endswith("."), sentence
                    assert not NOT_DECLARED.search(sentence.replace(metric, "")), sentence
                    assert (attack.exposes in sentence) == level.is_leak, sentence
                    if level.is_leak:
                        assert metric in sentence
                        assert "guessing .80 -> .90" in sentence


def answered(attack: AnyAttack, adversary: str, metric: str, unit: str, level: Level) -> str:
    reached, prior = Interval(value=0.9, low=0.8, high=1.0), Interval(value=0.8, low=0.7, high=0.9)
    finding = Finding(
        adversary=adversary,
        attack=attack.name,
        method="m",
        metric=metric,
        unit=unit,
        verdict=Verdict.LEAK,
        because="it was so",
        value=reached,
        prior=prior,
        gain=reached,
        targets=20,
        exposes=attack.exposes,
    )
    return finding_sentence(finding, level)


def test_clauses_of_stopped_by_that_limit_themselves_are_no_remedies() -> None:
    for _, name in attacks_by_game():
        text = declared(name).stopped_by
        for clause in text.split(";"):
            kept = clause.strip() in clauses_of(text)
            assert bool(kinds_named(clause) or other_clauses(clause)) == kept, clause
            if re.search(r"masks (do not|in part|alone do not|hide|leave)", clause):
                assert MASKS not in kinds_named(clause), clause
            limits = re.search(r"\b(not|hardly|neither|part|some|slow|hide)\b", clause)
            assert kept or limits, clause


def test_held_nodes_that_do_not_train_are_no_people_in_training() -> None:
    """An attack on who holds 150 nodes, of which 100 train, says nothing about training."""
    ids = np.arange(300)
    truth = (ids < 150).astype(np.int64)
    metric = "AUC over nodes that a client holds and others"
    game = BinaryGame(Question(ids), metric, "node", truth)
    details = picked_targets(game, truth.astype(np.float64))
    assert details == {"picked": 150.0, "picked_of": 150.0, "picked_false_alarms": 0.1}
    reached = Interval(value=1.0, low=1.0, high=1.0)
    held_finding = Finding(
        adversary="server",
        attack="held_rows",
        method="fedgl",
        metric=metric,
        unit="node",
        verdict=Verdict.LEAK,
        because="",
        value=reached,
        gain=reached,
        targets=300,
        details=details,
    )
    assert worst_sentence([held_finding]) == (
        "The server picks out 150 of 150 targets at one false alarm in ten "
        f"(held rows, scored by {metric})."
    )
