"""What an attack is handed: the server's knowledge goes to the server alone."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from attacks.base import View
from audits.player import Player
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from securefg.settings.config import parse_config
from tests import small

ENTITLED = ("edge_index", "trainers")


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """GFL-APPNP's server knows the graph and who has labels."""
    tree = small.tree(Path(tmp_path_factory.mktemp("truth")), "gfl_appnp")
    tree["partition"] = {"name": "one_node"}
    tree["training"] = {"rounds": 1, "patience": None}
    return Truth.of(runner.start(parse_config(tree)).folder)


def test_the_server_sees_what_its_method_entitles_it_to(truth: Truth) -> None:
    public = truth.view(Adversary.parse("server")).public
    assert all(getattr(public, name) is not None for name in ENTITLED)


@pytest.mark.parametrize("name", ["client:0", "client:0,1", "wire", "outsider"])
def test_all_others_see_sizes_alone(truth: Truth, name: str) -> None:
    public = truth.view(Adversary.parse(name)).public
    assert public.num_nodes == truth.experiment.public.num_nodes
    for field in fields(public):
        if field.name.startswith("num_") or field.name in ("seed", "device"):
            continue
        assert getattr(public, field.name) is None, field.name


def test_a_view_is_made_once_for_all_attacks_that_run_side_by_side(truth: Truth) -> None:
    asked = []

    class Counted:
        def view(self, adversary: Adversary) -> View:
            asked.append(adversary)
            time.sleep(0.05)
            return truth.view(adversary)

    counted: Any = Counted()
    player = Player(counted, 0, 0.05, defended=False)
    with ThreadPoolExecutor(4) as pool:
        views = list(pool.map(lambda _: player.view(counted, "server"), range(4)))
    assert len(asked) == 1
    assert all(view is views[0] for view in views)
