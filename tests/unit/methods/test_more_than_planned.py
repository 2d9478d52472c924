"""A server that asks for masked sums in more rounds than were planned gets none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import RoundAborted
from securefg.methods.fedavg.algorithm import Globals, Update
from securefg.methods.fedgl.messages import Update as FedGLUpdate
from securefg.methods.two_sums.algorithm import AskMoments, AskSums, ClassSums, Products
from securefg.protocol.messages import census_of
from tests.small import config
from tests.unit.methods.lied_to import Deployed

MASKED = "privacy.secure_aggregation={}"
SIX = "partition.shares=[0.5, 0.6, 0.7, 0.5, 0.6, 0.4]"
EQUAL = "method.weighting=equal"
ONCE = ("training.rounds=1", "method.narrow=1")
SECOND = AskMoments(projection=torch.ones(30, 2))


def test_two_sums_are_not_asked_again_while_a_client_is_away(tmp_path: Path) -> None:
    """They never change: the difference was client 0's own sums by class, to 1e-7."""
    run = Deployed.new(config(tmp_path, MASKED, SIX, *ONCE, method="two_sums"))
    with run.started() as (engine, server):
        server.ask(AskSums(number=1), ClassSums)
        server.ask(SECOND, Products)
        engine.silent = {0}
        server.begin_round(2)
        with pytest.raises(RoundAborted, match=r"ClassSums .* and the plan has 1"):
            server.ask(AskSums(number=2), ClassSums)
        with pytest.raises(RoundAborted, match=r"Products .* and the plan has 1"):
            server.ask(SECOND, Products)


def test_nor_after_all_clients_restarted(tmp_path: Path) -> None:
    run = Deployed.new(config(tmp_path, MASKED, SIX, *ONCE, method="two_sums"))
    with run.started() as (_, server):
        server.ask(AskSums(number=1), ClassSums)
    with run.started(2) as (engine, server):
        engine.silent = {0}
        server.begin_round(7)
        with pytest.raises(RoundAborted, match=r"ClassSums .* and the plan has 1"):
            server.ask(AskSums(number=7), ClassSums)


def test_models_are_not_asked_for_after_the_last_planned_round(tmp_path: Path) -> None:
    run = Deployed.new(config(tmp_path, MASKED, SIX, "training.rounds=2", method="fedavg"))
    with run.started() as (_, server):
        numbers = run.experiment.method.planned(
            run.experiment.config.method, run.experiment.config.training, run.experiment.public
        )[0].dim
        request = Globals(weights=torch.zeros(numbers))
        for round in (1, 2):
            server.begin_round(round)
            server.ask(request, Update)
        server.begin_round(3)
        with pytest.raises(RoundAborted, match=r"fedavg.Update left in 2 rounds"):
            server.ask(request, Update)


def test_a_census_that_noise_was_not_planned_for_is_not_taken(tmp_path: Path) -> None:
    """Under noise the server needs none; asked all the same, it would cost epsilon of no plan."""
    noise = "mechanism: local_gaussian, noise_multiplier: 1.0, clip_l2: 1.0"
    private = f"privacy={{{noise}, secure_aggregation: {{}}}}"
    run, census = Deployed.new(config(tmp_path, private, SIX, EQUAL)), census_of(FedGLUpdate)
    assert census is not None
    with run.started() as (_, server), pytest.raises(RoundAborted, match="the plan has 0"):
        server.ask(census.asked_in(1), census.reply)
