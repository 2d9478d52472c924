"""A game whose truth leaks into its guess fails the null; intervals of pairs redraw nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attacks.questions import Question
from audits import metrics
from audits.blind import at_chance, over_draws
from audits.findings.record import Verdict
from audits.games.base import BinaryGame, OutcomeGame
from audits.metrics import pair_auc, pair_gain
from audits.plan import Plan
from audits.run import audit
from securefg.foundation.interval import Interval
from securefg.runs import runner
from tests import small

GAME = """
import numpy as np
from audits.games.base import BinaryGame, plays
from own_{name} import Made

@plays(Made)
def made(truth, adversary, rng):
    ids = np.arange(60)
    so = np.arange(60) % 2
    {order}
    return BinaryGame(
        question=Made(ids=ids), metric="made", unit="node", truth=so.astype(np.int64)
    )
"""
ATTACK = """
from dataclasses import dataclass
import numpy as np
from attacks.base import Attack
from attacks.questions import Question
from securefg.protocol.meanings import Weights

@dataclass(frozen=True)
class Made(Question, name="made", played_in="own_game_{name}"):
    pass

def run(view, question, rng):
    return (question.ids % 2).astype(float) + 0.1 * rng.normal(size=len(question.ids))

ATTACK = Attack(
    name="own_{name}", summary="", source="", needs=(Weights(),), assumes="nothing",
    adversaries=frozenset({{"server"}}), question=Made, floor=0.1, expected="", run=run,
)
"""
LEAKING, SOUND = "pass", "so = rng.permutation(so)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("blind")
    config = small.config(root, "training.rounds=1", method="fedavg")
    return runner.start(config).folder.path


@pytest.mark.parametrize(("name", "order"), [("leaking", LEAKING), ("sound", SOUND)])
def test_a_game_that_tells_its_truth_is_not_sound(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, order: str
) -> None:
    (tmp_path / f"own_game_{name}.py").write_text(GAME.format(name=name, order=order))
    (tmp_path / f"own_{name}.py").write_text(ATTACK.format(name=name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {f.attack: f for f in audit(run, Plan(only=(f"own_{name}",))).findings}[f"own_{name}"]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.null_at_chance is (name == "sound")
    assert ("off chance" in found.because) is (name == "leaking")


def test_permuting_the_truth_under_a_fixed_guess_shows_no_such_thing() -> None:
    so = np.arange(60) % 2
    game = BinaryGame(Question(ids=np.arange(60)), "made", "node", so)
    assert game.null(so.astype(float), np.random.default_rng(0))[1]


def pairs_of(rng: np.random.Generator, count: int = 40) -> tuple[np.ndarray, ...]:
    """All pairs of nodes; scores and truth both hang on a number per node."""
    worth, taste = rng.normal(size=count), rng.normal(size=count)
    first, second = np.triu_indices(count, 1)
    noise = 0.3 * rng.normal(size=len(first))
    so = (worth[first] + worth[second] + noise > 1.5).astype(np.int64)
    scores = 0.4 * (worth[first] + worth[second]) + taste[first] + taste[second]
    return np.stack([first, second], 1), so, scores


def test_intervals_of_pairs_are_wider_than_if_pairs_were_independent() -> None:
    widths = []
    for seed in range(5):
        pairs, so, scores = pairs_of(np.random.default_rng(seed))
        naive, nodes = metrics.auc_interval(so, scores), pair_auc(so, scores, pairs)
        assert nodes.value == pytest.approx(naive.value)
        widths.append((nodes.high - nodes.low) / (naive.high - naive.low))
    assert min(widths) > 1.5


def test_the_gain_of_pairs_is_over_the_prior_and_zero_over_itself() -> None:
    pairs, is_edge, scores = pairs_of(np.random.default_rng(1))
    same = pair_gain(is_edge, scores, scores, pairs)
    assert same.value == same.low == same.high == 0
    prior = np.random.default_rng(2).normal(size=len(is_edge))
    gain = pair_gain(is_edge, scores, prior, pairs)
    assert gain.value == pytest.approx(
        metrics.area_under_curve(is_edge, scores) - metrics.area_under_curve(is_edge, prior)
    )


def test_a_perfect_separation_keeps_an_interval() -> None:
    pairs, so, _ = pairs_of(np.random.default_rng(1))
    found = pair_auc(so, so.astype(float), pairs)
    assert found.value == found.high == 1
    assert found.low < 1


def test_intervals_of_pairs_are_those_that_redrawing_the_nodes_gives() -> None:
    rng = np.random.default_rng(3)
    pairs = np.stack(np.triu_indices(60, 1), 1)
    node = 0.5 * rng.standard_normal(60)
    is_edge = (rng.random(len(pairs)) < 0.1).astype(np.int64)
    scores = is_edge + rng.standard_normal(len(pairs)) + node[pairs].sum(1)
    prior = 0.5 * is_edge + rng.standard_normal(len(pairs))
    gains = []
    for _ in range(300):
        times = rng.multinomial(60, np.full(60, 1 / 60))[pairs].prod(1)
        drawn = np.repeat(np.arange(len(pairs)), times)
        gains.append(
            metrics.area_under_curve(is_edge[drawn], scores[drawn])
            - metrics.area_under_curve(is_edge[drawn], prior[drawn])
        )
    found = pair_gain(is_edge, scores, prior, pairs)
    assert (found.high - found.low) / (2 * 1.96) == pytest.approx(np.std(gains), rel=0.15)


def test_one_edge_says_nothing_of_the_spread() -> None:
    pairs = np.stack(np.triu_indices(6, 1), 1)
    so = (np.arange(len(pairs)) == 3).astype(np.int64)
    found = pair_auc(so, np.random.default_rng(0).standard_normal(len(pairs)), pairs)
    assert (found.low, found.high) == (0, 1)


def test_a_blind_guess_that_is_the_prior_but_for_a_trace_gains_nothing() -> None:
    assert at_chance(Interval(value=2e-6, low=1e-6, high=3e-6))
    assert not at_chance(Interval(value=0.02, low=0.015, high=0.025))


def test_blind_draws_that_gain_by_luck_are_at_chance_together() -> None:
    """All targets may share the luck of one draw, which is no gain over many draws."""
    lucky = Interval(value=0.3, low=0.28, high=0.32)
    others = [Interval(value=v, low=v - 0.02, high=v + 0.02) for v in (-0.3, 0.2, -0.2, 0.1)]
    assert not at_chance(lucky)
    assert at_chance(over_draws([lucky, *others]))
    assert not at_chance(over_draws([lucky] * 5))


@pytest.mark.parametrize("count", [30, 100, 500])
def test_null_of_an_exact_guess_over_a_constant_prior_is_at_chance(count: int) -> None:
    """A prior that says the same of everybody may fit the chosen targets badly by luck."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(10, 14, size=count).astype(float)
        game = OutcomeGame(
            Question(ids=np.arange(count)),
            "share of users whose number of words is found",
            "row",
            sizes,
            lambda guess, truth: (guess == truth).astype(float),
            np.full(count, 10.0),
        )
        assert game.null(sizes, rng)[1], f"seed {seed}"


def test_null_of_a_guess_that_fits_everybody_is_off_chance() -> None:
    """An outcome that a guess of somebody else's secret reaches says nothing of the secret."""
    game = OutcomeGame(
        Question(ids=np.arange(200)),
        "share",
        "row",
        np.arange(200.0),
        lambda guess, truth: (guess > 0).astype(float),
        np.full(200, -1.0),
    )
    assert not game.null(np.ones(200), np.random.default_rng(0))[1]
