"""A server that asks for the second sum by a projection of its own making learns nothing by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from securefg.data.graph import Graph, Split
from securefg.data.shard import Shard
from securefg.engines.admission import Admission, RequestPlan
from securefg.federation.roles import PublicInfo, Site
from securefg.foundation.errors import ProtocolError, SecurefgError
from securefg.methods.two_sums.algorithm import (
    METHOD,
    AskMoments,
    AskSums,
    ClassSums,
    Client,
    Products,
)
from securefg.methods.two_sums.settings import Settings
from securefg.privacy.policy import Policy
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings
from tests.small import config
from tests.unit.methods.lied_to import Deployed

TURN = Turn(1, 1, Clients(((0, 1),)))
HUGE = torch.full((4, 2), 1.5e308, dtype=torch.float64)


def people(looks: list[list[float]], labels: list[int] | None = None) -> Graph:
    count = len(looks)
    given = torch.tensor(labels or [0] * count)
    train = given >= 0
    return Graph(
        name="people",
        features=torch.tensor(looks),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        labels=given,
        split=Split(train, torch.zeros(count).bool(), torch.zeros(count).bool()),
        num_classes=2,
    )


def client_of(graph: Graph, narrow: int = 0) -> Client:
    shard = Shard(0, torch.arange(graph.num_nodes), graph)
    site = Site(
        shards=[shard],
        method=Settings(scale=1.0, narrow=narrow),
        training=TrainingSettings(rounds=1, patience=None),
        seed=0,
        device=torch.device("cpu"),
    )
    return Client(site)


def answered(graph: Graph, asked: AskMoments, narrow: int = 0) -> Message:
    """What a client says to a request that every endpoint checks first."""
    settings = Settings(scale=1.0, narrow=narrow)
    policy = Policy({}, 1e-5, "node", None, protects=True)
    public = PublicInfo(9, 4, 2, 3, 0, torch.device("cpu"))
    training = TrainingSettings(rounds=1, patience=None)
    plan = RequestPlan.of(METHOD, settings, training, public, policy, [])
    Admission(METHOD, settings, policy, plan).check_fields(asked, TURN)
    return client_of(graph, narrow).handle(asked, TURN)


PLAIN = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
BOTH = [1.0, 1.0, 0.0, 0.0]


def told(looks: list[list[float]], projection: Tensor) -> str:
    """What the server sees of a client's answer beside its masked sum."""
    try:
        reply = answered(people(looks), AskMoments(projection=projection))
    except SecurefgError as error:
        return str(error)
    assert isinstance(reply, Products)
    return "finite" if bool(reply.products.isfinite().all()) else "not finite"


def test_no_projection_makes_a_client_fail_for_one_persons_features_alone() -> None:
    """x of length 1 with two equal features overflows 1.5e308 * (0.7 + 0.7), and nobody else's."""
    assert told(PLAIN, HUGE) == told([*PLAIN, BOTH], HUGE)


@pytest.mark.parametrize(
    "projection",
    [
        None,
        HUGE,
        torch.full((4, 2), float("inf")),
        torch.full((4, 2), float("nan")),
        torch.ones(4, 50),
        torch.ones(3, 2),
        torch.ones(4),
        torch.ones(4, 2).long(),
    ],
)
def test_a_projection_that_no_first_sum_makes_is_refused(projection: Tensor | None) -> None:
    with pytest.raises(ProtocolError, match="projection"):
        answered(people(PLAIN), AskMoments(projection=projection))


def test_a_projection_is_refused_where_nodes_keep_their_features() -> None:
    with pytest.raises(ProtocolError, match="found a projection; expected none"):
        answered(people(PLAIN), AskMoments(projection=torch.ones(4, 2)), narrow=4)


def test_the_largest_float32_are_cut_as_any_others() -> None:
    assert told([*PLAIN, BOTH], torch.full((4, 2), torch.finfo(torch.float32).max)) == "finite"


def test_a_node_without_a_label_counts_as_a_neighbour_and_not_as_a_class() -> None:
    """Such nodes are in no part of the split; the silo that has one must not fall silent."""
    graph = people([*PLAIN, BOTH], labels=[1, -1, 0])
    asked = AskMoments(projection=torch.ones(4, 2))
    unlabelled = client_of(graph).handle(asked, TURN)
    other = replace(graph, labels=torch.tensor([1, 0, 0]))
    assert isinstance(unlabelled, Products)
    same = client_of(other).handle(asked, TURN)
    assert isinstance(same, Products)
    assert torch.equal(unlabelled.products, same.products)
    assert isinstance(client_of(graph).handle(AskSums(number=1), TURN), ClassSums)


def test_nothing_leaves_the_channel_for_such_a_projection(tmp_path: Path) -> None:
    masked = "privacy={mechanism: distributed_discrete, target_epsilon: 2, unit: node,"
    chosen = config(
        tmp_path,
        f"{masked} secure_aggregation: {{}}}}",
        "partition.shares=[0.5, 0.6, 0.7, 0.5]",
        "training.rounds=1",
        "method.narrow=1",
        method="two_sums",
    )
    run = Deployed.new(chosen)
    with run.started() as (_, server), pytest.raises(ProtocolError, match=r"found torch\.float64"):
        server.ask(AskMoments(projection=torch.ones(30, 2).double()), Products)
    assert not run.folder.ledger_path.exists() or not run.folder.ledger_path.read_text()
