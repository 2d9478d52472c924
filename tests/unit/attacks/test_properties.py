"""What is inferred of whole clients, of one sensitive number and of others' labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attacks import get_attack
from attacks.base import CannotAttack, View
from attacks.questions import (
    ClassRatios,
    ClientClasses,
    HeldNodes,
    OthersLabels,
    Question,
    SensitiveColumn,
)
from audits.games import make_game
from audits.games.base import BinaryGame, NotAsked
from audits.games.labels import LabelGame
from audits.metrics import area_under_curve
from audits.rehearsals.throwaway import new_truth
from audits.truth import Truth
from securefg.federation.roles import PublicInfo
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Layer, Layout, Matrix, Weights
from securefg.protocol.transcript import Adversary, Record, Seen
from securefg.runs.assembly import prepare
from tests.small import config

CLASSES, HIDDEN, CLIENTS = 3, 8, 20
LAYOUT = Layout(
    layers=(Layer("first", (5, HIDDEN)), Layer("second", (HIDDEN, CLASSES))),
    inputs=(Matrix("first"),),
    output=Matrix("second"),
)
MEANINGS = {
    ("m.Start", "weights"): Weights("network", change=False),
    ("m.Update", "weights"): Weights("network", change=True),
}


def message(kind: str, up: bool, value: torch.Tensor, clients: list[int], rule: str) -> Seen:
    header = Record(
        seq=1,
        round=1,
        step=1,
        attempt=1,
        seconds=0.0,
        sender="host" if up else "server",
        receivers=("server" if up else "host",),
        kind=kind,
        clients=str(Clients.of(clients)),
        payload=0,
        envelope=0,
        rules={"weights": rule} if up else {},
    )
    return Seen(header, Clients.of(clients), {"weights": value})


def pulled(shares: np.ndarray, rule: str = "plain") -> View:
    """Every client's step on its labels: column c moves by (share_c - 1 / C) h."""
    rng = np.random.default_rng(0)
    size = LAYOUT.size
    updates = torch.zeros(CLIENTS, size)
    hidden = torch.from_numpy(rng.uniform(0.5, 1.0, (CLIENTS, HIDDEN, 1)))
    moved = hidden * torch.from_numpy(shares - 1 / CLASSES)[:, None]
    updates[:, -HIDDEN * CLASSES :] = moved.flatten(1).float()
    everybody = list(range(CLIENTS))
    sent = message("m.Start", False, torch.zeros(size), everybody, "")
    came = message("m.Update", True, updates, everybody, rule)
    public = PublicInfo(100, 5, CLASSES, CLIENTS, 0, torch.device("cpu"))
    return View(
        Adversary("server"), public, MEANINGS, networks={"network": LAYOUT}, seen=(sent, came)
    )


def test_who_has_more_of_a_class_pulls_its_column_further() -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(CLASSES), CLIENTS)
    ids = np.arange(CLIENTS * CLASSES)
    so = (shares > np.median(shares, 0)).astype(np.int64).ravel()
    guess = get_attack("class_ratios").run(pulled(shares), ClassRatios(ids=ids), rng)
    assert area_under_curve(so, guess) > 0.95


def test_masked_updates_say_nothing_of_one_client() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(CLASSES), CLIENTS)
    view = pulled(shares, "mask")
    with pytest.raises(CannotAttack, match="masked"):
        get_attack("class_ratios").run(
            view, ClassRatios(ids=np.arange(6)), np.random.default_rng(0)
        )


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    root = tmp_path_factory.mktemp("properties")
    chosen = config(root, "data.csbm.num_nodes=400", "audit.sensitive=2")
    return new_truth(prepare(chosen), root / "runs")


def played(truth: Truth, question: type[Question], who: str) -> BinaryGame:
    game = make_game(question, truth, Adversary.parse(who), np.random.default_rng(0))
    assert isinstance(game, BinaryGame)
    return game


def of_labels(truth: Truth) -> LabelGame:
    game = make_game(OthersLabels, truth, Adversary.parse("client:0"), np.random.default_rng(0))
    assert isinstance(game, LabelGame)
    return game


@pytest.mark.parametrize("who", ["client:0", "outsider"])
def test_a_number_that_answers_hold_is_inferred_from_them(truth: Truth, who: str) -> None:
    game = played(truth, SensitiveColumn, who)
    column = truth.graph.features[:, 2]
    answers = torch.stack([column, -column], 1)
    view = View(Adversary.parse(who), truth.experiment.public, {}, answers=answers)
    run = get_attack("attribute_from_answers").run
    assert game.measure(run(view, game.question, np.random.default_rng(0))).value > 0.95
    blind = torch.randn(answers.shape, generator=torch.Generator().manual_seed(0))
    view = View(Adversary.parse(who), truth.experiment.public, {}, answers=blind)
    gain = game.gain(run(view, game.question, np.random.default_rng(0)))
    assert gain.low < 0 < gain.high


def test_a_client_is_asked_about_others_alone(truth: Truth) -> None:
    own_nodes = truth.experiment.shards[0].node_ids.numpy()
    game = played(truth, SensitiveColumn, "client:0")
    assert not np.isin(game.question.ids, own_nodes).any()
    assert np.isin(game.question.known_ids, own_nodes).all()
    labels = make_game(OthersLabels, truth, Adversary.parse("client:0"), np.random.default_rng(0))
    assert isinstance(labels, LabelGame)
    assert not np.isin(labels.question.ids, own_nodes).any()
    assert (labels.truth == truth.graph.labels.numpy()[labels.question.ids]).all()


def test_the_server_is_asked_about_nodes_whose_number_it_does_not_know(truth: Truth) -> None:
    game = played(truth, SensitiveColumn, "server")
    assert not np.isin(game.question.ids, game.question.known_ids).any()


def test_a_column_that_nobody_named_is_not_asked_for(truth: Truth) -> None:
    nobody = truth.judged_by(truth.config.audit.model_copy(update={"sensitive": None}))
    with pytest.raises(NotAsked, match=r"audit\.sensitive"):
        played(nobody, SensitiveColumn, "server")
    beyond = truth.judged_by(truth.config.audit.model_copy(update={"sensitive": 30}))
    with pytest.raises(CannotAttack, match=r"audit\.sensitive is 30; the features have 30 columns"):
        played(beyond, SensitiveColumn, "server")


def test_naming_a_column_makes_no_other_run(truth: Truth) -> None:
    audit = truth.config.audit.model_copy(update={"sensitive": 5})
    assert truth.judged_by(audit).config.hash == truth.config.hash


def test_answers_repeat_the_labels_that_were_trained_on(truth: Truth) -> None:
    game = of_labels(truth)
    labels, train = truth.graph.labels, truth.graph.split.train
    wrong = (labels + 1) % 2
    half = torch.arange(len(labels)) % 2 == 0
    said = torch.where(train | half, labels, wrong)  # every training label, half of the others
    answers = torch.nn.functional.one_hot(said, 2).float()
    view = View(Adversary.parse("client:0"), truth.experiment.public, {}, answers=answers)
    gain = game.gain(
        get_attack("answered_labels").run(view, game.question, np.random.default_rng(0))
    )
    assert gain.low > 0.2


def test_targets_of_clients_and_classes_have_both_answers(truth: Truth) -> None:
    with pytest.raises(CannotAttack, match="clients train on labels; at least 4"):
        played(truth, ClassRatios, "server")
    with pytest.raises(CannotAttack, match="pairs of a client and a class"):
        played(truth, ClientClasses, "server")


def test_half_of_the_nodes_asked_about_are_the_clients(truth: Truth) -> None:
    game = played(truth, HeldNodes, "server")
    assert isinstance(game.question, HeldNodes)
    own = truth.experiment.shards[game.question.client].node_ids.numpy()
    assert (np.isin(game.question.ids, own) == (game.truth == 1)).all()
    assert game.truth.mean() == 0.5
