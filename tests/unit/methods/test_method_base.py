"""What averaging methods share: who is asked and the mean; and what a method must say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from securefg.federation.engine import Dropped
from securefg.federation.roles import Cohort, PublicInfo, Replies
from securefg.foundation.errors import ConfigError, ProtocolError, RunFailed
from securefg.methods.base import AveragingServer, asked_at_once, participants
from securefg.methods.registry import get_method
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.runs import runner
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import SHIPPED
from tests.small import config

START = torch.tensor([1.0, -2.0, 0.5])
INFO = PublicInfo(10, 3, 2, num_clients=6, seed=4, device=torch.device("cpu"))


class Globals(Message, kind="test_method_base.Globals"):
    weights: Tensor = public("model", means=Other())


class Update(Message, kind="test_method_base.Update"):
    weights: Tensor = private("sum", "model", means=Other(), weight="size")
    size: Tensor | None = private("sum", "its weight", means=Other())


class Unsaid(Message, kind="test_method_base.Unsaid"):
    weights: Tensor = public("model")


class Clones(Cohort):
    """Client k answers k times the model that it was sent, or drops out."""

    def __init__(self, *, weighted: bool = False, away: tuple[int, ...] = ()) -> None:
        self.num_clients, self._weighted, self._away = INFO.num_clients, weighted, away
        self.asked: list[Clients] = []

    def ask(self, request: Message, reply: Any, clients: Clients | None = None) -> Replies[Any]:
        assert isinstance(request, Globals)
        assert clients is not None
        self.asked.append(clients)
        here = [k for k in clients.numbers() if k not in self._away]
        gone = Clients.of([k for k in clients.numbers() if k in self._away])
        dropped = (Dropped("host-0", gone, "timeout"),) if len(gone) else ()
        factors = torch.tensor(here, dtype=torch.float32)
        rows = factors[:, None] * request.weights
        message = reply(weights=rows, size=factors + 1 if self._weighted else None)
        return Replies(message if here else None, Clients.of(here), dropped)


def server(cohort: Cohort, *, changes: bool = False, **training: Any) -> AveragingServer:
    settings = TrainingSettings(**training)
    return AveragingServer(
        INFO,
        settings,
        cohort,
        START.clone(),
        lambda weights: Globals(weights=weights),
        Update,
        changes=changes,
    )


def released(server: AveragingServer, number: int = 1) -> Tensor:
    message = server.round(number)
    assert isinstance(message, Globals)
    return message.weights


def test_models_are_averaged_and_changes_are_added_to_the_model() -> None:
    assert torch.allclose(released(server(Clones())), 2.5 * START)
    assert torch.allclose(released(server(Clones(), changes=True)), 3.5 * START)


def test_clients_count_as_the_declaration_says() -> None:
    mean = sum(k * (k + 1) for k in range(6)) / sum(k + 1 for k in range(6))
    assert torch.allclose(released(server(Clones(weighted=True))), mean * START)


def test_those_who_dropped_out_do_not_count() -> None:
    assert torch.allclose(released(server(Clones(away=(0, 5)))), 2.5 * START)
    assert torch.allclose(released(server(Clones(away=(0, 1, 2)))), 4 * START)


def test_a_round_without_any_reply_fails_and_leaves_the_model() -> None:
    averaging = server(Clones(away=tuple(range(6))))
    with pytest.raises(RunFailed, match=r"round 3: every client dropped out \(timeout\)"):
        averaging.round(3)
    assert torch.equal(averaging.state()["weights"], START)


def test_the_next_round_starts_from_the_mean() -> None:
    averaging = server(Clones())
    released(averaging, 1)
    assert torch.allclose(released(averaging, 2), 2.5**2 * START)


def test_a_restored_server_goes_on_where_the_state_was_taken() -> None:
    one, other = server(Clones()), server(Clones())
    one.round(1)
    state = one.state()
    wanted = released(one, 2)
    assert torch.allclose(state["weights"], 2.5 * START)
    other.restore(state)
    assert torch.equal(released(other, 2), wanted)


def test_a_share_of_the_clients_is_drawn_anew_each_round_from_the_seed() -> None:
    cohort = Clones()
    sampling = server(cohort, participation=0.5)
    drawn = []
    for number in range(1, 9):
        sampling.restore({"weights": START, "total": torch.tensor(0.0)})
        sampling.round(number)
        drawn.append(cohort.asked[-1].numbers())
    assert {len(clients) for clients in drawn} == {3}
    assert len({tuple(clients) for clients in drawn}) > 1
    training = TrainingSettings(participation=0.5)
    assert drawn == [participants(INFO, training, n).numbers() for n in range(1, 9)]
    other = replace(INFO, seed=5)
    assert drawn != [participants(other, training, n).numbers() for n in range(1, 9)]


@pytest.mark.parametrize(
    ("num_clients", "share", "count"),
    [(6, 1.0, 6), (6, 0.5, 3), (7, 0.5, 4), (6, 0.01, 1), (10, 0.3, 3), (100, 0.07, 7)],
)
def test_so_many_are_asked_at_once(num_clients: int, share: float, count: int) -> None:
    assert asked_at_once(num_clients, share) == count


# ------------------------------------------------------------------------------------- methods


def test_a_released_tensor_says_what_it_means() -> None:
    with pytest.raises(ProtocolError, match=r"Unsaid\.weights is released to the world"):
        replace(get_method("fedavg"), messages=(Unsaid, Update), release=Unsaid)


def test_what_is_released_is_among_the_messages() -> None:
    with pytest.raises(ProtocolError, match="Globals is released and not a message"):
        replace(get_method("fedavg"), messages=(Update,), release=Globals)


def test_two_messages_of_one_kind_are_refused() -> None:
    with pytest.raises(ProtocolError, match="two messages are of one kind"):
        replace(get_method("fedavg"), messages=(Globals, Globals), release=Globals)


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - {"fedavg", "fedmlp", "gfl_appnp"}))
def test_methods_that_do_not_train_by_dp_sgd_refuse_it(name: str) -> None:
    method = replace(get_method(name), planned=lambda settings, training, info: [])
    plan = {"noise_multiplier": 1, "sampling": 1, "num_samples": 2}
    training = TrainingSettings.model_validate({"dp_sgd": plan})
    with pytest.raises(ConfigError, match=rf"training.dp_sgd: {name} does not train by it"):
        method.releases(method.settings(), training, INFO)


def test_every_tensor_that_comes_from_data_has_a_meaning_in_every_shipped_method() -> None:
    for name in SHIPPED:
        method = get_method(name)
        declared_meanings = method.meanings(method.settings())
        for message in method.messages:
            for field, declaration in message.declarations.items():
                if declaration.is_private or declaration.scope == "personal":
                    assert (message.kind, field) in declared_meanings


@pytest.mark.parametrize("method", ["two_sums", "noisy_counts"])
def test_methods_that_sum_all_clients_refuse_to_ask_a_part(method: str, tmp_path: Path) -> None:
    one = ("training.rounds=1", "training.participation=0.8")
    with pytest.raises(ConfigError, match=f"expected 1 for {method}"):
        runner.start(config(tmp_path, *one, method=method))
