"""Was a node's label trained on? Attacks that read how clients change the model they were sent.

A node of the training set pulls the model along its own gradient. An adversary who knows the graph,
the features and the label can write that gradient down for the model that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Noise, View
from attacks.evidence import largest_shift, lean_evidence, normal_scores
from attacks.membership import share_of_one
from attacks.models import (
    MODEL,
    client_models,
    is_change,
    layout_of,
    off_the_path,
    sent_models,
)
from attacks.questions import Membership, OthersMembers
from securefg.models.gcn import normalized_adjacency
from securefg.protocol.meanings import Holdings, Layout, NodeRows, Predictions


@dataclass(frozen=True)
class Known:
    """A graph as somebody knows it: global features, and edges among the nodes of a client."""

    features: Tensor
    edges: Tensor

    def keep_within(self, nodes: Tensor) -> Known:
        """Return the same graph without edges that leave these nodes."""
        inside = torch.zeros(len(self.features), dtype=torch.bool)
        inside[nodes] = True
        return Known(self.features, self.edges[:, inside[self.edges].all(0)])


@dataclass(frozen=True)
class Around:
    """A set of targets, and what a two-layer network reads around them.

    mixed    (A X) of the targets and their neighbours
    weights  A between the targets and these
    """

    mixed: Tensor
    weights: Tensor

    @classmethod
    def of_targets(cls, layout: Layout, known: Known, targets: NDArray[np.int64]) -> Around:
        """Read the surroundings of these targets from the known graph."""
        ids = torch.from_numpy(targets)
        if layout.form == "mlp2":
            return cls(known.features[ids], torch.eye(len(ids)))
        operator = normalized_adjacency(known.edges, len(known.features))
        rows = operator.at(ids)
        near, column = torch.unique(rows.columns.long(), return_inverse=True)
        weights = torch.zeros(len(ids), len(near))
        weights[torch.arange(len(ids)).repeat_interleave(rows.rows.diff()), column] = rows.values
        return cls(operator.at(near) @ known.features, weights)

    @cached_property
    def neighbours(self) -> tuple[Tensor, ...]:
        """Return for every target the places of its neighbours in `mixed`."""
        row, place = self.weights.nonzero(as_tuple=True)
        counts: list[int] = torch.bincount(row, minlength=len(self.weights)).tolist()
        return torch.split(place, counts)


def node_gradients(layout: Layout, vector: Tensor, around: Around, labels: Tensor) -> Tensor:
    """Return (targets, parameters): the gradient of every target's cross-entropy at these weights.

    For Z = A ReLU(A X W0) W1 and e = softmax(z_v) - y_v, with N the rows of A X at v's neighbours
    u: dL/dW1 = (A H)_v^T e and dL/dW0 = sum_u A_vu (A X)_u^T ((e W1^T) * [H_u > 0]). A perceptron
    is the same with A = I.
    """
    assert layout.output is not None
    first, second = layout.part(vector, layout.inputs[0]), layout.part(vector, layout.output)
    before = around.mixed @ first
    gate, hidden = (before > 0).to(before.dtype), around.weights @ before.relu()
    error = (hidden @ second).softmax(-1)
    error[torch.arange(len(labels)), labels] -= 1
    back = error @ second.T
    gradient_rows = torch.empty(len(labels), layout.size)
    cut = first.numel()
    targets = zip(gradient_rows, around.weights, around.neighbours, back, strict=True)
    for row, weights, near, own in targets:
        passed = weights[near, None] * gate[near] * own
        torch.mm(around.mixed[near].T, passed, out=row[:cut].view(first.shape))
    gradient_rows[:, cut:] = (hidden[:, :, None] * error[:, None, :]).flatten(1)
    return gradient_rows


def has_equations(view: View) -> str | None:
    """Return None (for `applies_to`) where gradients of single nodes can be written down."""
    form = layout_of(view).form
    known = ("gcn2", "mlp2")
    return None if form in known else f"the equations are of {' or '.join(known)}, not of {form}"


ROUNDS = 4
RIDGE = 0.1
STILL = 1e-7
"""Float error: a row that moved less than this from its path did not move."""
CLEAR_SDS = 5.0


FAR = 10.0
LATEST = 30
"""Rounds after the first in which members still pull; later, a model has learnt them."""


@dataclass(frozen=True)
class Change:
    """A change that a client, or the mean of several clients, made to the model of a round.

    moved   by how much (for a sum that is weighted by sizes, up to its scale)
    summed  it is the mean of all clients
    """

    received: Tensor
    moved: Tensor
    noise: Noise | None = None
    summed: bool = False


def changes_of_clients(view: View, rounds: int) -> list[tuple[int | None, list[Change]]]:
    """Return every client's changes of so many rounds. The key None stands for all clients' mean.

    The rounds are the first that can be read and others spread over the `LATEST` first.
    """
    sent, client_changes = sent_models(view), dict[int | None, list[Change]]()
    uploads = [message for message in view.best_rows(MODEL) if message.round in sent]
    early = sorted({m.round for m in uploads if m.round <= uploads[0].round + LATEST})
    chosen = {early[int(i)] for i in np.linspace(0, len(early) - 1, rounds)} if early else set()
    for message in uploads:
        received, changed = sent[message.round], is_change(message)
        if message.round not in chosen:
            continue
        whose: list[int | None] = [None] if message.summed else [*message.clients.numbers()]
        for client, row in zip(whose, message.value, strict=False):
            value = row.flatten().to(received.dtype)
            moved = value if changed else value - received
            if message.summed and moved.norm() > FAR * received.norm():
                moved = value  # changes times clients' sizes: no model lies as far from its start
            change = Change(received, moved, message.noise, message.summed)
            client_changes.setdefault(client, []).append(change)
    if not client_changes:
        raise CannotAttack("no round in which a model and what it was made from can be read")
    return list(client_changes.items())


def held_nodes(view: View, client: int | None) -> Tensor:
    """Return the nodes that a client uploads rows about, or all nodes if these cannot be read."""
    everything = torch.arange(view.public.num_nodes)
    if client is None:
        return everything
    for need in (Holdings(degrees=False), NodeRows(index="nodes"), Predictions("nodes")):
        for message in view.uploads(need):
            row = None if message.masked or message.noise else message.row_of_client(client)
            if row is not None and row.dim() == 2 and len(row) == len(everything):
                return row.abs().sum(1).nonzero().flatten()
    return everything


@dataclass(frozen=True)
class Signs:
    """A sign of membership: per target its sum over the changes that could show it, and their
    count."""

    total: Array
    count: Array

    @classmethod
    def without_signs(cls, size: int) -> Signs:
        """Return signs of so many targets that nothing has shown yet."""
        return cls(np.zeros(size), np.zeros(size))

    def add(self, places: NDArray[np.int64], values: Tensor) -> None:
        """Add what one change shows of the targets at these places."""
        self.total[places] += values.double().numpy()
        self.count[places] += 1

    def normal_scores(self) -> Array:
        """Return normal scores of the mean. A target that no change could show is in the middle."""
        seen, found = self.count > 0, np.zeros(len(self.count))
        if seen.any():
            found[seen] = normal_scores(self.total[seen] / self.count[seen])
        return found


def membership_gradients(view: View, question: Membership, rng: np.random.Generator) -> Array:
    """Return how much each node's gradient has in common with the uploaded changes.

    No shadow model is needed. Three signs are added as normal scores:

    - words: the share of the words touched by its gradient whose row of W0 left the path of weight
      decay in the first round (all of them, if the node was trained on),
    - coefficient: the node's weight in the ridge regression of the first change on all targets'
      gradients at once, so that a neighbour's pull is not taken for its own,
    - cosine of its gradient with the change, averaged over rounds.

    A client's changes count if the client holds the node. If changes are masked, their mean is
    read. Under noise the signs weigh as much as the policy's noise leaves of a member's pull,
    beside the prior. Nasr et al. 2019 read gradients with trained networks. Melis et al. 2019 read
    words. The combination was derived here.
    """
    labels = torch.from_numpy(question.labels)
    known = Known(torch.from_numpy(question.known), torch.from_numpy(question.edges))
    signs, noise, count = tuple(Signs.without_signs(len(labels)) for _ in range(3)), None, 0
    for client, changes in changes_of_clients(view, ROUNDS):
        nodes = held_nodes(view, client)
        places = np.flatnonzero(np.isin(question.ids, nodes.numpy()))
        if len(places):
            around = Around.of_targets(
                layout_of(view), known.keep_within(nodes), question.ids[places]
            )
            _read_change(view, changes, around, labels, places, *signs)
            noise, count = changes[0].noise, count + len(changes)
    if not count:
        raise CannotAttack("no client whose change can be read holds a target")
    total: Array = np.sum([sign.normal_scores() for sign in signs], 0)
    return lean_evidence(
        total, question.prior, largest_shift(noise, share_of_one(view, question), count)
    )


def _read_change(
    view: View,
    changes: list[Change],
    around: Around,
    labels: Tensor,
    places: NDArray[np.int64],
    words: Signs,
    coefficient: Signs,
    cosine: Signs,
) -> None:
    """Add what one client's changes show of the targets that it holds."""
    layout, own = layout_of(view), labels[torch.from_numpy(places)]
    for number, change in enumerate(changes):
        pulls = node_gradients(layout, change.received, around, own)
        if number == 0 and not change.summed:
            left = off_the_path(view, change.received, change.moved)
            if left is not None:
                used = layout.part(pulls, layout.inputs[0]).abs().amax(2) > 0
                words.add(places, share_moved(used, left.abs().amax(1), change.noise))
        pulls /= pulls.norm(dim=1, keepdim=True).clamp_min(1e-12)
        pull = -change.moved / change.moved.norm().clamp_min(1e-12)
        cosine.add(places, pulls @ pull)
        if number == 0:
            coefficient.add(places, regress_pulls(pulls, pull))


def share_moved(used: Tensor, moved: Tensor, noise: Noise | None) -> Tensor:
    """Return, of the words that a gradient touches, the share whose row moved more than noise
    would."""
    so = (moved > max(STILL, CLEAR_SDS * noise.sd if noise else 0)).float()
    return (used.float() @ so) / used.sum(1).clamp_min(1)


def regress_pulls(pulls: Tensor, pull: Tensor) -> Tensor:
    """Return (G G^T + ridge)^-1 G d: every target's part in the change beside all others'."""
    gram = (pulls @ pulls.T).double()
    ridge = RIDGE * torch.eye(len(gram), dtype=torch.float64)
    found: Tensor = torch.linalg.solve(gram + ridge, (pulls @ pull).double())
    return found


MEMBERSHIP_GRADIENTS = Attack(
    name="membership_gradients",
    summary="whether a node's label was trained on, from its gradient's part in uploaded changes",
    source="derived here; Nasr et al. 2019 for gradients, Melis et al. 2019 for words",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="clients' uploaded models or their sum, the models they were sent, the graph, all "
    "features, and the targets' labels",
    adversaries=frozenset({"server"}),
    question=Membership,
    floor=0.1,
    expected="AUC 0.97 on Cora over six silos, where LiRA has 0.84",
    exposes="that a person was among those whose labels were trained on",
    stopped_by="noise on the update; masks leave the mean of all clients, which still tells some",
    run=membership_gradients,
    rounds=10,
    applies_to=has_equations,
)


BROADCAST_STEPS = 12


def membership_broadcasts(view: View, question: OthersMembers, rng: np.random.Generator) -> Array:
    """Return how much each node's gradient has in common with the changes between sent models.

    Two models that were sent one after the other differ by the mean of all clients' changes,
    whatever masks hid single ones. A client takes its own change off. A target's part in the rest
    is read as the server reads it off uploads: by regression on all targets' gradients at once, and
    by cosine.
    """
    layout, labels = layout_of(view), torch.from_numpy(question.labels)
    known = Known(torch.from_numpy(question.known), torch.from_numpy(question.edges))
    around, sent = Around.of_targets(layout, known, question.ids), sent_models(view)
    if len(sent) < 2:
        raise CannotAttack("fewer than two models that were sent are in the view")
    own_parts, total = _own_parts(view), np.zeros(len(labels))
    for before, after in list(pairwise(sorted(sent)))[:BROADCAST_STEPS]:
        received = sent[before].float()
        pulls = node_gradients(layout, received, around, labels)
        pulls = pulls / pulls.norm(dim=1, keepdim=True).clamp_min(1e-12)
        moved = sent[after].float() - received
        if after == before + 1 and before in own_parts:
            moved = moved - own_parts[before]
        pull = -moved / moved.norm().clamp_min(1e-12)
        for sign in (regress_pulls(pulls, pull), pulls @ pull):
            total += normal_scores(sign.double().numpy())
    noises = [view.noise[place] for place in view.places(MODEL) if place in view.noise]
    noise = noises[0].of_sum(view.public.num_clients) if noises else None
    shift = largest_shift(noise, share_of_one(view, question), len(sent) - 1)
    return lean_evidence(total, question.prior, shift)


def _own_parts(view: View) -> dict[int, Tensor]:
    """Return by round how far the client itself moved the mean, if all clients weigh alike."""
    part_by_round: dict[int, Tensor] = {}
    for shard in view.own:
        try:
            models = client_models(view, shard.client)
        except CannotAttack:
            continue  # an upload that cannot be read back stays in
        for number, trained in models.items():
            part = trained.moved / view.public.num_clients
            part_by_round[number] = (
                part_by_round[number] + part if number in part_by_round else part
            )
    return part_by_round


MEMBERSHIP_BROADCASTS = Attack(
    name="membership_broadcasts",
    summary="whether others train on a node's label, from the models that every client is sent",
    source="derived here, as gradient membership by the server; Melis et al. 2019 for the place",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="the models sent in some rounds, the graph, all features, and the targets' labels",
    adversaries=frozenset({"client"}),
    question=OthersMembers,
    floor=0.1,
    expected="AUC 0.7 to 0.8 over six silos; the fewer clients, the more",
    exposes="that a person's label was trained on at another client",
    stopped_by="noise on the update; more clients; masks do not, since the mean is sent to all",
    run=membership_broadcasts,
    rounds=13,
    applies_to=has_equations,
)


ATTACKS = (MEMBERSHIP_GRADIENTS, MEMBERSHIP_BROADCASTS)
