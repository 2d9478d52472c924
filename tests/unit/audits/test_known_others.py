"""Sums against somebody who knows all the others: everything without noise, little with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attacks import get_attack
from attacks.base import CannotAttack
from attacks.questions import SummedBoth, SummedFeatures, SummedLinks
from attacks.sums import SUMS, _noise_variance, likelihood_ratios
from audits.games import make_game
from audits.metrics import area_under_curve
from audits.truth import Truth
from securefg.privacy.accountants import Step, exact_gaussian
from securefg.protocol.transcript import Adversary, read_transcript
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

SERVER = Adversary("server")
OUTSIDER, CLIENT = Adversary("outsider"), Adversary("client", frozenset({0}))
ATTACKS = [
    ("summed_features", SERVER),
    ("summed_moments", SERVER),
    ("summed_both", SERVER),
    ("summed_labels", SERVER),
    ("summed_links", SERVER),
    ("summed_links", OUTSIDER),
    ("released_others", OUTSIDER),
    ("released_others", CLIENT),
]
MASKED = {"mechanism": "plain", "target_epsilon": None, "unit": "client"}


@pytest.fixture(scope="module")
def truth_of(tmp_path_factory: pytest.TempPathFactory):
    """The run without a defence, under masks alone, and with noise; each is made once."""
    made: dict[str, Truth] = {}

    def find(name: str) -> Truth:
        if name not in made:
            changed = {"plain": None, "masked": MASKED, "noisy": {"target_epsilon": 0.5}}[name]
            privacy = {} if changed is None else {**PRIVATE, "noise_rng": "system", **changed}
            given = tree(tmp_path_factory.mktemp(name), **({"privacy": privacy} if privacy else {}))
            made[name] = Truth.of(runner.start(parse_config(given)).folder)
        return made[name]

    return find


def played(truth: Truth, attack: str, adversary: Adversary) -> float:
    """The AUC of the attack on a run, or its share."""
    game = make_game(get_attack(attack).question, truth, adversary, np.random.default_rng(0))
    guess = get_attack(attack).run(truth.view(adversary), game.question, np.random.default_rng(0))
    return game.measure(guess).value


@pytest.mark.parametrize(("attack", "adversary"), ATTACKS)
@pytest.mark.parametrize("run", ["plain", "masked"])
def test_what_has_no_noise_tells_every_secret_to_who_knows_the_others(
    truth_of, run: str, attack: str, adversary: Adversary
):
    assert played(truth_of(run), attack, adversary) > 0.95


@pytest.mark.parametrize(("attack", "adversary"), ATTACKS)
def test_noise_of_a_small_epsilon_leaves_little(truth_of, attack: str, adversary: Adversary):
    # epsilon 0.5 allows .62; all targets share one draw of the system's noise, so figures spread
    assert played(truth_of("noisy"), attack, adversary) < 0.75


def test_release_that_is_far_from_linear_tells_no_more_than_its_sums(tmp_path):
    """Without noise such a release lies elsewhere, and steps there would tell which is the run's.
    The noise of the sums allows a gain of .1 here."""
    noise = {"mechanism": "local_gaussian", "target_epsilon": 4, "unit": "node", "delta": 1e-5}
    method = {"name": "two_sums", "graph": False, "narrow": 8, "encoding": "sums"}
    reached = []
    for seed in range(4):
        given = tree(tmp_path, method=method, privacy=noise, seed=seed)
        truth = Truth.of(runner.start(parse_config(given)).folder)
        reached.append(played(truth, "released_others", OUTSIDER))
    assert np.mean(reached) < 0.6


def test_targets_that_move_a_sum_little_do_not_spoil_the_order_of_those_that_move_it_far():
    """The likelihood ratio orders them best; how much of a target fits in, where noise is large,
    says most of targets of which nothing can be known."""
    rng = np.random.default_rng(0)
    area_pairs = []
    for _ in range(40):
        sizes, is_member = rng.choice([0.03, 3.0], 300), rng.integers(2, size=300)
        moves = sizes[:, None] * np.eye(2)[0]
        rest = is_member[:, None] * moves + 2 * rng.normal(size=(300, 2))
        fitting = (rest * moves).sum(1) / np.square(moves).sum(1)
        by_ratio = likelihood_ratios(rest, np.zeros_like(moves), moves)
        area_pairs.append(
            (area_under_curve(is_member, by_ratio), area_under_curve(is_member, fitting))
        )
    best, other = np.mean(area_pairs, axis=0)
    assert best > other + 0.08


def test_two_sums_together_tell_what_both_variances_allow(truth_of):
    truth, rng = truth_of("noisy"), np.random.default_rng(0)
    view, game = truth.view(SERVER), make_game(SummedBoth, truth, SERVER, rng)
    x = truth.experiment
    planned = x.method.releases(x.config.method, x.config.training, x.public)
    for need, release in zip(SUMS, planned, strict=True):
        share = x.policy.rules[release.name].stddev(torch.Size([release.dim]))
        wanted = x.public.num_clients * share**2
        assert _noise_variance(view, need) == pytest.approx(wanted, rel=1e-6)
    # Nobody is exposed further than the claim: mu of epsilon 0.5 at this delta, and of no less.
    sds = [np.sqrt(_noise_variance(view, need)) for need in SUMS]
    assert isinstance(game.question, SummedBoth)
    noise = np.concatenate([np.full(r.dim, sd) for r, sd in zip(planned, sds, strict=True)])
    mu = float(np.linalg.norm(game.question.moves / noise, axis=1).max())
    assert exact_gaussian((Step(1 / mu, 1),), x.policy.delta) < 0.5


def test_the_answers_of_a_model_that_stay_at_home_are_no_prior_of_links(truth_of):
    """They are made with the links; a gain over them would hide what the sums tell."""
    for adversary in (SERVER, OUTSIDER):
        game = make_game(SummedLinks, truth_of("noisy"), adversary, np.random.default_rng(0))
        assert game.prior(np.zeros(len(game.question.ids))).value == 0.5


def test_sum_question_without_the_other_nodes_is_refused():
    with pytest.raises(TypeError, match="'sum_without' and 'moves'"):
        SummedFeatures(ids=np.arange(3))


def test_who_sees_nothing_of_a_sum_cannot_attack_it(truth_of):
    truth = truth_of("masked")
    game = make_game(SummedFeatures, truth, SERVER, np.random.default_rng(0))
    with pytest.raises(CannotAttack, match="not in the view"):
        get_attack("summed_moments").run(
            truth.view(Adversary("wire")), game.question, np.random.default_rng(0)
        )


def test_uploads_are_of_one_size_whatever_a_client_holds(truth_of):
    """All that the wire sees is when and how much."""
    for run in ("masked", "noisy"):
        sizes: dict[str, set[int]] = {}
        for record in read_transcript(truth_of(run).folder.transcript):
            if record.up and record.kind.startswith("two_sums."):
                sizes.setdefault(record.kind, set()).add(record.payload)
        assert sizes
        assert all(len(found) == 1 for found in sizes.values())
