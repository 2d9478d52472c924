"""FedGL's server does the paper's arithmetic, and its settings change what they say they change."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch

from securefg.federation.roles import Cohort, PublicInfo, Replies
from securefg.foundation.errors import ConfigError
from securefg.methods.fedgl.algorithm import FedGLServer
from securefg.methods.fedgl.messages import Globals, Update
from securefg.methods.fedgl.settings import Settings
from securefg.models.pseudo_graph import build_pseudo_graph
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from tests.small import config

SIZES = torch.tensor([30.0, 10.0])
# Node 0 is held by both clients, node 1 by the first, node 2 by the second, node 3 by none.
PREDICTIONS = torch.tensor(
    [[[0.9, 0.1], [0.8, 0.2], [0.0, 0.0], [0.0, 0.0]], [[0.7, 0.3], [0, 0], [0.1, 0.9], [0, 0]]]
)
HOLDS = torch.tensor([[[1.0], [1], [0], [0]], [[1], [0], [1], [0]]])


class Canned(Cohort):
    """Replies with one prepared message."""

    def __init__(self, reply: Update) -> None:
        self.num_clients, self._reply = 2, reply

    def ask(self, request: Any, reply: Any, clients: Any = None) -> Any:
        return Replies(self._reply, Clients.of([0, 1]), ())


def after_one_round(**settings: Any) -> Globals:
    info = PublicInfo(
        num_nodes=4,
        num_features=3,
        num_classes=2,
        num_clients=2,
        seed=0,
        device=torch.device("cpu"),
    )
    chosen = Settings(hidden=2, num_neighbors=2, **settings)
    weights = torch.stack([torch.full((10,), 1.0), torch.full((10,), 5.0)])
    reply = Update(
        weights=weights,
        num_nodes=SIZES,
        predictions=PREDICTIONS,
        embeddings=PREDICTIONS,
        holds=HOLDS,
    )
    training = SimpleNamespace(participation=1.0, rounds=3)
    return FedGLServer(info, chosen, training, Canned(reply)).round(1)


def test_models_are_averaged_by_the_number_of_nodes() -> None:
    released = after_one_round()
    assert torch.allclose(released.weights, torch.full((10,), 2.0))  # (30 * 1 + 10 * 5) / 40


def test_paper_fusion_counts_clients_that_do_not_hold_a_node_as_zero() -> None:
    """Node 1: .8 * 30/40 = .6 passes a threshold of .5; node 2: .9 * 10/40 does not."""
    labels = after_one_round(fusion="paper", threshold=0.5).pseudo_labels
    assert labels is not None
    assert labels.tolist() == [0, 0, -1, -1]


def test_renormalised_fusion_asks_the_holders_alone() -> None:
    labels = after_one_round(fusion="renormalised", threshold=0.5).pseudo_labels
    assert labels is not None
    assert labels.tolist() == [0, 0, 1, -1]


def test_the_pseudo_graph_is_that_of_the_fused_embeddings() -> None:
    released = after_one_round()
    fused = (PREDICTIONS * (SIZES / 40)[:, None, None]).sum(0)
    wanted = build_pseudo_graph(fused, 2)
    assert released.graph_counts is not None
    assert released.graph_columns is not None
    assert torch.equal(released.graph_counts, wanted.counts)
    assert torch.equal(released.graph_columns, wanted.columns)


def test_a_warm_up_holds_the_pseudo_graph_back() -> None:
    assert after_one_round(warmup=2).graph_counts is None
    assert after_one_round(warmup=1).graph_counts is not None


def fields_sent(root: Path, *overrides: str) -> dict[str, torch.Tensor]:
    run = runner.start(config(root, "training.rounds=1", *overrides))
    sent = next(r for r in read_transcript(run.folder.transcript) if r.kind == "fedgl.Update")
    return {k: v for k, v in sent.fields().items() if isinstance(v, torch.Tensor)}


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("{name: fedgl}", {"weights", "num_nodes", "predictions", "embeddings"}),
        ("{name: fedgl, pseudo_graph: false}", {"weights", "num_nodes", "predictions"}),
        ("{name: fedgl, pseudo_labels: false}", {"weights", "num_nodes", "embeddings"}),
        (
            "{name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}",
            {"weights"},
        ),
        (
            "{name: fedgl, fusion: renormalised, weighting: equal}",
            {"weights", "predictions", "embeddings", "holds"},
        ),
    ],
)
def test_only_what_the_settings_need_leaves_a_client(
    method: str, wanted: set[str], tmp_path: Path
) -> None:
    assert set(fields_sent(tmp_path, f"method={method}")) == wanted


def test_the_uploaded_embedding_is_the_layer_that_was_chosen(tmp_path: Path) -> None:
    final = fields_sent(tmp_path / "final", "method.embedding=final")["embeddings"]
    hidden = fields_sent(tmp_path / "hidden", "method.embedding=hidden")["embeddings"]
    assert final.shape == (1, 120, 2)
    assert hidden.shape == (1, 120, 16)
    assert bool((hidden >= 0).all())  # after the ReLU


def test_sending_the_change_gives_the_model_that_sending_the_model_gives(tmp_path: Path) -> None:
    models = []
    for upload in ("model", "update"):
        run = runner.start(
            config(tmp_path / upload, "training.rounds=1", f"method.upload={upload}")
        )
        models.append(safetensors.torch.load_file(run.folder.path / "model.safetensors")["weights"])
    assert torch.allclose(models[0], models[1], atol=1e-6)


def test_partial_participation_asks_the_share_of_clients(tmp_path: Path) -> None:
    run = runner.start(config(tmp_path, "training.participation=0.5"))
    rounds = [r.round for r in read_transcript(run.folder.transcript) if r.kind == "fedgl.Update"]
    assert rounds == [1, 1, 2, 2, 3, 3, 4, 4]  # two of three clients


def test_above_a_size_neighbours_are_searched_nearly_and_the_summary_has_the_recall(
    tmp_path: Path,
) -> None:
    near = runner.start(config(tmp_path / "near", "method.exact_nodes=119")).folder.summary()
    exact = runner.start(config(tmp_path / "exact", "method.exact_nodes=120")).folder.summary()
    assert 0.9 < near.method_facts["pseudo_graph_recall"] <= 1
    assert "pseudo_graph_recall" not in exact.method_facts


def test_a_missing_library_is_named_before_anybody_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ConfigError, match=r"pip install 'securefg\[faiss\]'"):
        after_one_round(exact_nodes=3)
    assert after_one_round(exact_nodes=4).graph_counts is not None
