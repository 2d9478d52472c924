"""Every game is played on methods and data that no shipped config has; none of them crashes.

A game may say why it cannot be played. It never fails, and a failure is never a privacy finding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attacks.base import CannotAttack
from attacks.questions import KnownEdges, Question
from audits import games
from audits.findings.record import Finding, Verdict
from audits.games import load_game, make_game
from audits.games.base import GAMES, BinaryGame, Game, OutcomeGame, Played
from audits.games.labels import class_ratios
from audits.metrics import area_under_curve
from audits.plan import Plan
from audits.run import Audit, audit
from audits.truth import Truth
from securefg.data.readers.folder import store
from securefg.foundation.interval import Interval
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config

pytestmark = pytest.mark.filterwarnings("ignore:data.split")  # a class that does not train
CLIENT = Adversary("client", frozenset({0}))
PLACES = (Adversary("server"), CLIENT, Adversary("outsider"))
CSBM = {"num_nodes": 100, "degree": 6, "graph_signal": 2, "mu": 3, "num_features": 12}
SHARES = {"train_share": 0.5, "val_share": 0.1}
TWO_FIELDS = ("statistics", "rows", "weights")
NODE_EACH = {"partition": {"name": "one_node"}}


def drawn(root: Path, **changed: Any) -> dict[str, Any]:
    return {"data": {"name": "csbm", "csbm": {**CSBM, **SHARES, "task": "dnc", **changed}}}


def missing_class(root: Path) -> dict[str, Any]:
    """No node of class 2 trains, class 3 has one node, and ten nodes have no link."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (120,), generator=stream)
    labels[-1] = 3
    rows = torch.rand(120, 12, generator=stream) + labels[:, None] / 3
    ends = torch.randint(0, 110, (2, 360), generator=stream)
    ends = ends[:, ends[0] != ends[1]]
    train = (torch.arange(120) < 70) & (labels != 2)
    data = SimpleNamespace(
        x=rows,
        y=labels,
        edge_index=torch.cat([ends, ends.flip(0)], 1).unique(dim=1),
        train_mask=train,
        test_mask=~train,
    )
    return {"data": {"name": "folder", "folder": str(store(data, root / "data"))}}


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "plain": drawn,
    "three holders": lambda root: (
        drawn(root) | {"partition": {"name": "shares", "shares": [1, 1, 1]}}
    ),
    "several samples": partial(drawn, task="snc", samples_per_node=4),
    "labelled samples": partial(drawn, task="sc", samples_per_node=6),
    "missing class": missing_class,
}
QUICK = (
    ("statistics", "missing class"),
    ("statistics", "labelled samples"),
    ("rows", "three holders"),
    ("weights", "plain"),
    ("nothing", "plain"),
    ("latents", "several samples"),
)
"""Every reply and every kind of data once; all pairs of them take minutes."""
LONG = (
    *((says, data) for says in TWO_FIELDS for data in DATA if data != "labelled samples"),
    ("nothing", "three holders"),
    ("latents", "missing class"),
)
CASES = [
    *QUICK,
    *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG if case not in QUICK),
]


@pytest.fixture(scope="module")
def truth_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Truth]:
    """Runs of the talkative method; each is made once for every `use`."""
    made: dict[tuple[str, str, str], Truth] = {}

    def find(says: str, data: str, use: str = "") -> Truth:
        if (says, data, use) not in made:
            root = tmp_path_factory.mktemp("run")
            tree = {
                "method": {"name": "tests.contract.talker", "says": says},
                "partition": {"name": "random", "num_clients": 5},
                "training": {"rounds": 1, "patience": None, "final_model": "last"},
                "output": {"root": str(root / "runs"), "transcript_every": 1},
                **DATA[data](root),
                **(NODE_EACH if says == "latents" else {}),
            }
            made[says, data, use] = Truth.of(runner.start(parse_config(tree)).folder)
        return made[says, data, use]

    return find


def played(truth: Truth, question: type[Question], adversary: Adversary) -> Game | None:
    """The game, or None where it says why it cannot be played."""
    try:
        return make_game(question, truth, adversary, np.random.default_rng(0))
    except CannotAttack:
        return None


@pytest.mark.parametrize(("says", "data"), CASES)
def test_every_game_is_played_or_says_why_not(truth_of, says: str, data: str) -> None:
    truth, game_count = truth_of(says, data), 0
    for name, question in games.shipped_questions().items():
        for adversary in PLACES:
            game = played(truth, question, adversary)
            if game is not None:
                game_count += 1
                require_sound(game, f"{name} by {adversary.kind}")
    assert game_count > 10


def require_sound(game: Game, name: str) -> None:
    """The prior gains nothing over itself, lies within 0 and 1, and is at chance on permuted
    truth; the prior of a game of two sides is not below chance."""
    guess = game.without_run
    if guess is None or not isinstance(game, BinaryGame | OutcomeGame):
        return
    assert len(guess) == len(game.question.ids), name
    assert game.gain(guess).value == pytest.approx(0, abs=1e-12), name
    assert 0 <= game.prior(guess).value <= 1 + 1e-9, name
    game.null(guess, np.random.default_rng(1))
    if isinstance(game, BinaryGame):
        assert area_under_curve(game.truth, guess) >= 0.5, name


@pytest.mark.parametrize(("says", "data"), CASES)
def test_no_attack_fails_on_a_method_from_outside(truth_of, says: str, data: str) -> None:
    done = audited(truth_of(says, data))
    assert done.failed == []
    assert [f.attack for f in done.findings if f.failed] == []
    assert [f.attack for f in done.findings if "breaks off" in f.because] == []


def audited(truth: Truth, *only: str) -> Audit:
    return audit(truth.folder.path, Plan(only=only) if only else Plan(attacks_only=True))


@pytest.mark.parametrize("data", ["plain", "missing class"])
def test_two_private_fields_of_one_message_are_read_together(truth_of, data: str) -> None:
    """The release is made again from both fields, and tells everything."""
    done = audited(truth_of("statistics", data), "released_others")
    gains = [f.gain.value for f in done.findings if f.attack == "released_others" and f.gain]
    assert gains == pytest.approx([0.5, 0.5])


def test_client_without_private_field_leaves_release_without_members(truth_of) -> None:
    done = audited(truth_of("nothing", "plain"), "released_others")
    (because,) = {f.because for f in done.findings if f.attack == "released_others"}
    assert because.startswith("clients send nothing of their own")


def test_prior_of_class_ratios_knows_that_a_class_is_missing() -> None:
    """Nobody has a label of class 2: that no client is above its median needs no run."""
    shards = []
    for client in range(8):
        labels = torch.tensor([0] * (client + 1) + [1] * 5)
        split = SimpleNamespace(train=torch.ones(len(labels), dtype=torch.bool))
        graph = SimpleNamespace(labels=labels, split=split)
        shards.append(SimpleNamespace(client=client, graph=graph))
    truth: Any = SimpleNamespace(
        experiment=SimpleNamespace(shards=shards), graph=SimpleNamespace(num_classes=3)
    )
    asked = (class_ratios(truth, PLACES[0], np.random.default_rng(k)) for k in range(20))
    game = next(game for game in asked if (game.question.ids % 3 == 2).any())
    classes = game.question.ids % 3
    rates = np.array([game.truth[classes == own].mean() for own in classes])
    assert area_under_curve(game.truth, rates) > 0.5
    assert game.gain(rates).value == pytest.approx(0)


# ------------------------------------------------------------------------------- a game that breaks


class BrokenGain(BinaryGame):
    def gain(self, guess: Any) -> Interval:
        raise TypeError("no such gain")


def breaking_when_made(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> Game:
    raise TypeError("no such field")


def breaking_when_scored(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> Game:
    game = GOOD(truth, adversary, rng)
    values = {name: getattr(game, name) for name in ("question", "metric", "unit", "truth")}
    return BrokenGain(**values)


def breaking_when_blind(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> Game:
    """The first guess is scored; the null control's is not."""
    game, calls = GOOD(truth, adversary, rng), []

    def check(guess: Any) -> None:
        calls.append(guess)
        if len(calls) > 1:
            raise TypeError("no second guess")

    object.__setattr__(game, "check", check)
    return game


GOOD = load_game(KnownEdges).make


def edges_found(done: Audit) -> list[Finding]:
    return [f for f in done.findings if f.attack == "released_edges"]


@pytest.mark.parametrize("make", [breaking_when_made, breaking_when_scored])
def test_crash_of_a_game_is_failed_and_inconclusive(
    truth_of, make: Callable[..., Game], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GAMES, KnownEdges, Played(make))
    done = audited(truth_of("nothing", "plain", make.__name__), "released_edges")
    assert [attack for attack, _ in done.failed] == ["released_edges"] * 2
    assert len(edges_found(done)) == 2
    for finding in edges_found(done):
        assert finding.verdict is Verdict.INCONCLUSIVE
        assert finding.failed
        assert finding.gain is None
        assert finding.value is None
        assert finding.because.startswith("it failed: TypeError: no such")


def test_crash_of_the_null_control_is_named_beside_the_gain(
    truth_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GAMES, KnownEdges, Played(breaking_when_blind))
    done = audited(truth_of("nothing", "plain", "blind"), "released_edges")
    for finding in edges_found(done):
        assert finding.verdict is Verdict.LEAK
        assert "the null control was not computed" in finding.because
