"""The models that clients were sent and sent back, and a copy of the released model.

Helpers read the layout of a network, how a client changed a model, how far its first layers moved,
and which rows span that change. The attack `extraction` copies the released model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Message, View
from attacks.questions import CopiedModel
from attacks.rows import client_rounds
from securefg.models.gcn import normalized_adjacency
from securefg.models.optimizers import Adam
from securefg.protocol.meanings import Answers, Layout, Weights

MODEL = Weights()


@dataclass(frozen=True)
class Trained:
    """A pair of models: the model that a client was sent in a round, and the model that it
    uploaded."""

    received: Tensor
    uploaded: Tensor

    @property
    def moved(self) -> Tensor:
        """Return the difference between the two models."""
        return self.uploaded - self.received


def layout_of(view: View) -> Layout:
    """Return the layout of the network whose weights are uploaded."""
    for place in view.places(MODEL):
        meaning = view.meanings[place]
        if isinstance(meaning, Weights):
            return view.network(meaning.of)
    raise CannotAttack("no network's weights cross")


def sent_models(view: View) -> dict[int, Tensor]:
    """Return the model that training started from, by round, as one vector."""
    return {m.round: m.value.flatten() for m in view.downloads(Weights(change=False))}


def is_change(message: Message) -> bool:
    """Return whether an upload holds the change of a model instead of the model itself."""
    return isinstance(message.meaning, Weights) and bool(message.meaning.change)


def changed_rows(message: Message, sent: dict[int, Tensor]) -> Tensor:
    """Return by how much each client of an upload changed the model, (clients, parameters)."""
    rows = message.value.flatten(1).double()
    if is_change(message):
        return rows
    if message.round not in sent:
        raise CannotAttack(f"the weights sent in round {message.round} are not in the view")
    return rows - sent[message.round].double()


def client_models(view: View, client: int) -> dict[int, Trained]:
    """Return both models of every round in which both can be read."""
    received, uploaded = sent_models(view), client_rounds(view, client, MODEL)
    rounds = sorted(received.keys() & uploaded.keys())
    if not rounds:
        raise CannotAttack(f"no round in which the model of client {client} can be read")
    changes = is_change(view.best_rows(MODEL)[0])
    return {
        t: Trained(
            received[t], uploaded[t].float() + received[t] if changes else uploaded[t].float()
        )
        for t in rounds
    }


def first_changes(view: View, wanted: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return the model of the first recorded round, and how each wanted client changed it."""
    uploads = view.best_rows(MODEL)
    number = uploads[0].round
    sent = sent_models(view).get(number)
    if sent is None:
        raise CannotAttack(f"the model sent in round {number} is not in the view")
    start = sent.double()
    before = torch.zeros_like(start) if is_change(uploads[0]) else start
    client_changes: dict[int, Tensor] = {}
    for message in uploads:
        if message.round == number:
            rows = message.value.flatten(1).double() - before
            client_changes |= dict(zip(message.clients.numbers(), rows, strict=True))
    if missing := [k for k in wanted.tolist() if k not in client_changes]:
        raise CannotAttack(f"client {missing[0]} uploaded no model in round {number}")
    return start, torch.stack([client_changes[k] for k in wanted.tolist()])


def off_the_path(view: View, received: Tensor, moved: Tensor) -> Tensor | None:
    """Return how far every weight of the first layers, (inputs, outputs), ended from the path of
    decay alone. Return None if that path cannot be followed."""
    layout, training = layout_of(view), view.recipe
    if not layout.inputs or layout.optimizer != "adam":
        return None
    first = torch.cat([layout.part(received, m) for m in layout.inputs], 1)
    path = first.clone()
    adam = Adam([path], [training.weight_decay], training.lr)
    for _ in range(training.local_epochs):
        adam.step([torch.zeros_like(path)])
    return first + torch.cat([layout.part(moved, m) for m in layout.inputs], 1) - path


def of_form(form: str) -> Callable[[View], str | None]:
    """Make an `applies_to` that accepts networks of this form only."""

    def reason(view: View) -> str | None:
        found = layout_of(view).form
        return None if found == form else f"the equations are of form {form}, the network {found}"

    return reason


def first_layers(view: View) -> Iterator[tuple[int, int, Array, Array]]:
    """Yield (round, client, change of W (outputs, inputs), change of b) as recorded.

    Several matrices that read features are put one under the other. The bias is empty where there
    is none. If uploads were masked, every client has the mean of the sum.
    """
    layout, sent = layout_of(view), sent_models(view)
    if not layout.inputs:
        raise CannotAttack("which of the weights multiply features is not known")
    for message in view.best_rows(MODEL):
        size = message.value.flatten(1).shape[1]
        if size != layout.size:
            raise CannotAttack(f"an upload has {size} numbers, not {layout.size}")
        rows = changed_rows(message, sent)
        weight = torch.cat([layout.part(rows, matrix) for matrix in layout.inputs], -1).mT
        names = [matrix.bias for matrix in layout.inputs if matrix.bias is not None]
        whole = len(names) == len(layout.inputs)
        bias = [layout.layer(rows, name) for name in names] if whole else []
        bias_rows = torch.cat(bias, -1).numpy() if bias else np.zeros((len(rows), 0))
        for k, client in enumerate(message.clients.numbers()):
            yield message.round, client, weight[k].numpy(), bias_rows[k]


def sent_first_layers(view: View, number: int) -> Array | None:
    """Return the first layers that a round's changes started from, (outputs, inputs), or None where
    the view does not hold them."""
    layout, sent = layout_of(view), sent_models(view)
    if number not in sent:
        return None
    parts = [layout.part(sent[number].double(), matrix).mT for matrix in layout.inputs]
    found: Array = torch.cat(parts).numpy()
    return found


def without_decay(view: View, number: int, change: Array) -> Array:
    """Return a change of the first layers without the part that weight decay made of the sent
    model.

    Exact under plain gradient descent. Changes of other optimizers are returned as they are.
    """
    recipe, start = view.training, sent_first_layers(view, number)
    if layout_of(view).optimizer != "sgd" or recipe is None or start is None:
        return change
    left = (1 - recipe.lr * recipe.weight_decay) ** recipe.local_epochs
    found: Array = change + (1 - left) * start
    return found


def decay_cannot_be_followed(view: View) -> str | None:
    """Return None (for `applies_to`) unless `vocabulary` can take the decay off first."""
    layout = layout_of(view)
    if not layout.inputs:
        return "which of the weights multiply features is not known"
    return (
        "Adam's decay moves every row: `vocabulary` follows it"
        if layout.optimizer == "adam"
        else None
    )


SPAN_TRACE = 1e-3
"""Singular values below this share of the largest are rounding."""
INSIDE_SPAN = 0.02
"""Of a record's length, what may lie outside the span if it is in it."""


@dataclass(frozen=True)
class Moved:
    """A change of one matrix over features, (units, inputs), without decay.

    Plain gradient descent moves a first matrix by sum_v d_v x_v^T, however many local steps there
    are, so every row of the change lies in the span of the inputs x_v of nodes that a label
    reaches. Weight decay is taken off exactly. If fewer nodes are reached than the layer has units
    and inputs, the span is small, and a record either lies in it or does not (GRAIN by Drencheva et
    al. 2025 for graphs, Petrov et al. 2024 for text). Adam scales every weight by itself and leaves
    no span.
    """

    change: Array

    @property
    def rank(self) -> int:
        """Return the number of singular values that are not rounding."""
        sizes = np.linalg.svd(self.change, compute_uv=False)
        return int((sizes > SPAN_TRACE * sizes[0]).sum()) if sizes[0] > 0 else 0

    @property
    def tells(self) -> bool:
        """Return whether the span is neither nothing nor everything, so that lying in it means
        something."""
        return 0 < self.rank < min(int(size) for size in self.change.shape)

    def share_outside(self, rows: Array) -> Array:
        """Return the share of every row's length that lies outside the span."""
        _, sizes, right = np.linalg.svd(self.change, full_matrices=False)
        basis = right[: int((sizes > SPAN_TRACE * max(sizes[0], 1e-300)).sum())]
        left = rows - (rows @ basis.T) @ basis
        length = np.linalg.norm(rows, axis=1)
        found: Array = np.where(
            length > 0, np.linalg.norm(left, axis=1) / np.maximum(length, 1e-12), 1.0
        )
        return found


def moved_by(view: View, clients: set[int]) -> dict[int, list[Moved]]:
    """Return each client's first change, matrix by matrix. If changes were masked, each client has
    the mean of all."""
    layout, sent = layout_of(view), sent_models(view)
    moved_parts: dict[int, list[Moved]] = {}
    for number, client, change, _ in first_layers(view):
        if client not in clients or client in moved_parts or number not in sent:
            continue
        units = [layout.part(sent[number], matrix).shape[-1] for matrix in layout.inputs]
        bare = without_decay(view, number, change)
        moved_parts[client] = [Moved(part) for part in np.split(bare, np.cumsum(units)[:-1])]
    if missing := sorted(clients - moved_parts.keys()):
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    return moved_parts


def reads_a_span(view: View) -> str | None:
    """Return None (for `applies_to`) where some client's change has a span that says something."""
    layout = layout_of(view)
    if not layout.inputs:
        return "which of the weights multiply features is not known"
    if layout.optimizer != "sgd":
        return (
            "records are in the span of a change by plain gradient descent; here local training "
            f"is by {layout.optimizer or 'an unknown optimizer'}, which scales every weight alone"
        )
    if view.best_rows(MODEL)[0].noise is not None:
        return "noise on the update fills the span: every record lies as far outside as any other"
    clients = {k for m in view.best_rows(MODEL) for k in m.clients.numbers()}
    changes = [part for parts in moved_by(view, clients).values() for part in parts]
    if not any(part.tells for part in changes):
        units, inputs = changes[0].change.shape
        return (
            f"every client's change has full rank: labels reach as many nodes as the layer has "
            f"units ({units}) or inputs ({inputs}), or masks have added clients up"
        )
    return None


BUDGETS = (10, 30, 100, 300)
CLEAR_SDS = 2.0
"""Standard deviations by which left-out answers must be foreseen better than by the commonest."""
COPY_RIDGES = 10.0 ** np.arange(-4, 5)


def extraction(view: View, question: CopiedModel, rng: np.random.Generator) -> Array:
    """Return the class that a copy of the released model gives, (targets, numbers of queries).

    An adversary who may only ask learns the answers (logits) by ridge regression on a node's
    features, mixed over its links no, one and two times (Tramer et al. 2016, and Wu et al. 2022 for
    graphs). The ridge is the one that leaves-one-out best. Several numbers of queries are tried. If
    left-out answers are foreseen no better than by the commonest answer, the prior is the guess.
    """
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    if len(question.queries) < BUDGETS[0]:
        raise CannotAttack(f"{len(question.queries)} nodes to ask about; {BUDGETS[0]} are needed")
    rows = mixed_features(question.known, question.edges)
    answers: Array = view.answers.double().numpy()
    columns = [
        _copied_answers(question, rows, answers, question.queries[:count])
        for count in query_budgets(len(question.queries))
    ]
    return np.stack(columns, 1)


def query_budgets(available: int) -> list[int]:
    """Return the numbers of queries that are tried, ascending."""
    return [count for count in BUDGETS if count < available] + [available]


def _copied_answers(
    question: CopiedModel, rows: Array, answers: Array, asked: NDArray[np.int64]
) -> Array:
    centred_answers = answers[asked] - answers[asked].mean(1, keepdims=True)
    guess, foreseen = ridge_copy(rows[asked], centred_answers, rows[question.ids])
    common = np.bincount(centred_answers.argmax(1)).max() / len(asked)
    clear = common + CLEAR_SDS * np.sqrt(common * (1 - common) / len(asked))
    if question.prior is not None and (foreseen == centred_answers.argmax(1)).mean() <= clear:
        own: Array = question.prior[:, -1]
        return own
    found: Array = guess.argmax(1).astype(np.float64)
    return found


def mixed_features(features: NDArray[np.float32], edges: NDArray[np.int64]) -> Array:
    """Return features beside what one and two mixings over the links make of them."""
    parts = [torch.from_numpy(features).float()]
    operator = normalized_adjacency(torch.from_numpy(edges), len(features))
    for _ in range(2):
        parts.append(operator @ parts[-1])
    found: Array = torch.cat([part / part.norm().clamp_min(1e-12) for part in parts], 1).numpy()
    return found.astype(np.float64)


def ridge_copy(rows: Array, answers: Array, wanted: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the ridge regression for the wanted rows, and the class that it gives each known row
    without its own answer."""
    centre, level = rows.mean(0), answers.mean(0)
    rows, wanted, answers = rows - centre, wanted - centre, answers - level
    sizes, axes = gram_axes(rows)  # once for all ridges
    gram_size = float(sizes.sum() / len(rows)) + 1e-300
    along, squares = axes.T @ answers, np.square(axes)
    best = (np.inf, np.zeros_like(answers), answers)
    for ridge in COPY_RIDGES:
        shrunk = 1 / (sizes.clip(0) + ridge * gram_size)
        beside = 0.0 if len(sizes) == len(rows) else 1 / (ridge * gram_size)  # off the axes
        weights = axes @ ((shrunk - beside)[:, None] * along) + beside * answers
        left_out = answers - weights / (squares @ (shrunk - beside) + beside)[:, None]
        loss = float(np.square(left_out - answers).mean())
        if loss < best[0]:
            best = (loss, weights, left_out)
    _, weights, left_out = best
    return wanted @ (rows.T @ weights) + level, (left_out + level).argmax(1)


def gram_axes(rows: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of rows @ rows.T and their eigenvectors, as columns.

    With more rows than columns the eigenvectors of the value 0 are left out, so that the cost is
    linear in the rows.
    """
    if len(rows) <= rows.shape[1]:
        sizes, axes = np.linalg.eigh(rows @ rows.T)
        return sizes, axes
    axes, roots, _ = np.linalg.svd(rows, full_matrices=False)
    return np.square(roots), axes


EXTRACTION = Attack(
    name="extraction",
    summary="a copy of the released model, from answers to at most some hundred queries",
    source="Tramer et al. 2016; Wu et al. 2022 for graphs; ridge regression on mixed features",
    needs=(Answers(),),
    assumes="answers (scores of all classes) about nodes whose features and links are known: a "
    "client's own, or an outsider's",
    adversaries=frozenset({"client", "outsider"}),
    question=CopiedModel,
    floor=0.05,
    expected="0.87 to 0.92 of all answers alike after 300 queries on Cora, 0.8 after 100",
    exposes="a working copy of the model, which can be attacked at leisure and without a limit",
    stopped_by="fewer answers per party; labels without scores slow it; noise on uploads does not",
    run=extraction,
    rounds=1,
)


ATTACKS = (EXTRACTION,)
