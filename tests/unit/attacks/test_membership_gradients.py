"""A node's gradient has a part in the change of a model that was trained on its label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from attacks.base import Noise, View
from attacks.membership_gradients import (
    MEMBERSHIP_GRADIENTS,
    Around,
    Known,
    node_gradients,
    share_moved,
)
from attacks.questions import Membership, Shadows
from audits.blind import blind_view
from audits.metrics import area_under_curve
from securefg.federation.roles import PublicInfo
from securefg.models.gcn import GcnShape, gcn_layout, normalized_adjacency, run_gcn
from securefg.models.sparse import feature_matrix
from securefg.models.training import GcnTrainer
from securefg.models.training import Targets as Trained
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Weights
from securefg.protocol.transcript import Adversary, Record, Seen
from securefg.settings.execution import TrainingSettings

NODES, FEATURES, CLASSES = 120, 300, 3
SHAPE = GcnShape(FEATURES, 8, CLASSES)
LAYOUT = gcn_layout(SHAPE, 0.0)
RECIPE = TrainingSettings(rounds=1, local_epochs=3)
RNG = np.random.default_rng(0)
LABELS = RNG.integers(CLASSES, size=NODES)
FEATURE_ROWS = (RNG.random((NODES, FEATURES)) < 0.02).astype(np.float32)
ENDS = RNG.integers(NODES, size=(2, 150))
EDGES = np.concatenate([ENDS, ENDS[::-1]], 1)[:, np.tile(ENDS[0] != ENDS[1], 2)]
IDS = RNG.permutation(NODES)[:60]
MEMBER = np.arange(60) < 30
ADJACENCY = normalized_adjacency(torch.from_numpy(EDGES), NODES)
TARGETS = Membership(
    ids=IDS,
    labels=LABELS[IDS],
    known_ids=np.arange(NODES),
    known=FEATURE_ROWS,
    edges=EDGES,
    shadows=Shadows(np.zeros((0, 60, CLASSES), np.float32), np.zeros((0, 60), bool), LABELS[IDS]),
    prior=RNG.standard_normal(60),
)


def message(kind: str, sender: str, value: torch.Tensor) -> Seen:
    header = Record(
        seq=1,
        round=1,
        step=1,
        attempt=1,
        seconds=0.0,
        sender=sender,
        receivers=("client-0",) if sender == "server" else ("server",),
        kind=kind,
        clients="0",
        payload=0,
        envelope=0,
        rules={},
    )
    return Seen(header, Clients.of([0]), {"weights": value})


def trained(start: torch.Tensor) -> torch.Tensor:
    trainer = GcnTrainer(SHAPE, start, RECIPE.lr, RECIPE.weight_decay)
    nodes = torch.from_numpy(IDS[MEMBER])
    own = [Trained(nodes, torch.from_numpy(LABELS)[nodes])]
    features = feature_matrix(torch.from_numpy(FEATURE_ROWS))
    trainer.train(RECIPE.local_epochs, ADJACENCY, features, own, 0.0, torch.Generator())
    return trainer.vector()


def view(noise: Noise | None = None) -> View:
    start = SHAPE.initial(torch.Generator().manual_seed(1))
    upload = trained(start)[None]
    if noise is not None:
        drawn = torch.randn(upload.shape, generator=torch.Generator().manual_seed(2))
        upload = upload + noise.sd * drawn
    place = ("m.Update", "weights")
    return View(
        Adversary("server"),
        PublicInfo(NODES, FEATURES, CLASSES, 1, 0, torch.device("cpu")),
        {
            ("m.Start", "weights"): Weights("network", change=False),
            place: Weights("network", change=False),
        },
        networks={"network": LAYOUT},
        training=RECIPE,
        noise={} if noise is None else {place: noise},
        seen=[message("m.Start", "server", start), message("m.Update", "client-0", upload)],
    )


def reached(seen: View, targets: Membership = TARGETS) -> float:
    return area_under_curve(
        MEMBER, MEMBERSHIP_GRADIENTS.run(seen, targets, np.random.default_rng(0))
    )


def test_gradients_are_those_of_automatic_differentiation() -> None:
    vector = SHAPE.initial(torch.Generator().manual_seed(3))
    known = Known(torch.from_numpy(FEATURE_ROWS), torch.from_numpy(EDGES))
    gradient_rows = node_gradients(
        LAYOUT, vector, Around.of_targets(LAYOUT, known, IDS[:5]), torch.from_numpy(LABELS)[IDS[:5]]
    )
    features = feature_matrix(torch.from_numpy(FEATURE_ROWS))
    for row, node in zip(gradient_rows, IDS[:5].tolist(), strict=True):
        weights = [w.clone().requires_grad_() for w in SHAPE.split(vector)]
        logits = run_gcn(weights, ADJACENCY, features)[1]
        loss = cross_entropy(logits[node], torch.tensor(LABELS[node]))
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)])
        assert torch.allclose(row, wanted, atol=1e-6)


def test_members_are_found_without_noise() -> None:
    assert reached(view()) > 0.9


def test_nothing_is_found_where_messages_mean_nothing() -> None:
    found = [reached(blind_view(view(), np.random.default_rng(seed))) for seed in range(8)]
    assert abs(np.mean(found) - 0.5) < 0.1


def test_noise_that_hides_everything_leaves_the_prior() -> None:
    hidden = view(Noise(sd=100.0, clip_l2=1.0))
    assert TARGETS.prior is not None
    assert reached(hidden) == pytest.approx(area_under_curve(MEMBER, TARGETS.prior), abs=0.02)
    unaware = replace(hidden, noise={})
    good = replace(TARGETS, prior=MEMBER + RNG.standard_normal(60))
    assert reached(hidden, good) > 0.7 > reached(unaware, good)


def test_rows_that_noise_alone_would_move_count_as_still() -> None:
    used, moved = torch.ones(1, 2, dtype=torch.bool), torch.tensor([0.0, 0.4])
    assert share_moved(used, moved, None).item() == 0.5
    assert share_moved(used, moved, Noise(0.1, 1.0)).item() == 0
