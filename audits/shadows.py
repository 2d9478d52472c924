"""Shadow models for membership inference: GCNs of the run's shape, trained many at a time.

With `audit.shadows: method` they are federations of the run's own config (second half).

Every shadow trains on half of the targets, drawn anew class by class, as long as the released model
was trained. It starts from weights of its own. Every group of shadows sees a graph of its own, with
a share of the edges left out, since the federation did not train on the whole graph either. All are
queried on the whole graph. A method's additions to a GCN (pseudo labels, weights per user) are left
out. Shadows are made once per run and kept in its audit folder, under a hash of all they depend on.

A shadow of the method is a copy of the run: the same clients, graph, channels and noise, for as
many rounds as the released model took, from a seed of its own. A half of the targets trains, drawn
anew. All other training nodes train in every shadow. Nothing of the run is asked: every shadow has
a folder of its own, which is deleted.
"""

from __future__ import annotations

import hashlib
import io
import json
import statistics
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import CannotAttack
from attacks.membership import links_of, said_around
from attacks.questions import Shadows
from audits.rehearsals.throwaway import federate_rounds, new_truth, throwaway_config
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.foundation.errors import DataError
from securefg.foundation.files import write_atomically
from securefg.foundation.npz import read_npz
from securefg.foundation.streams import derive_seed, numpy_stream, torch_stream
from securefg.models.batched_gcn import BatchedGcns
from securefg.models.gcn import gcn_inputs, normalized_adjacency
from securefg.protocol.meanings import Layout
from securefg.runs.assembly import Experiment

VERSION = 2
GROUP = 16
EDGES_LEFT_OUT = 0.1
MANY_EPOCHS = 300
_ONE_AT_A_TIME = threading.Lock()
Arrays = dict[str, NDArray[Any]]
NAMES = {"logits", "member", "around"}
"""What is kept of shadows: the fields of `Shadows` but labels, which the graph has."""


@dataclass(frozen=True)
class Recipe:
    """A recipe with all that shadows depend on beside the graph and the targets."""

    count: int
    epochs: int
    hidden: int
    dropout: float
    lr: float
    weight_decay: float
    seed: int
    edges_left_out: float = EDGES_LEFT_OUT


def recipe_of(truth: Truth) -> Recipe:
    """Return the recipe by which the released model was trained, as far as a GCN can follow it.

    More than `MANY_EPOCHS` are not made: a longer training only changes the scale, and attacks put
    confidences on a common scale.
    """
    config, summary = truth.config, truth.folder.summary()
    like = next(iter(truth.networks.values()), Layout(()))
    epochs = int(summary.best_round) * config.training.local_epochs
    return Recipe(
        count=config.audit.num_shadows,
        epochs=min(epochs, MANY_EPOCHS),
        hidden=like.hidden,
        dropout=like.dropout,
        lr=config.training.lr,
        weight_decay=config.training.weight_decay,
        seed=config.seed,
    )


def shadows_for(truth: Truth, targets: NDArray[np.int64]) -> Shadows:
    """Return the shadows of these targets, in their order. All attacks of an audit share them."""
    key = targets.tobytes()
    with _ONE_AT_A_TIME:
        if key not in truth.shadows:
            truth.shadows[key] = _shadows_of(truth, targets)
        return truth.shadows[key]


def _shadows_of(truth: Truth, targets: NDArray[np.int64]) -> Shadows:
    """Return the shadows in the order of the targets, from the audit's folder where they are."""
    recipe, ordered, kind = recipe_of(truth), np.sort(targets), truth.config.audit.shadows
    labels = truth.graph.labels.numpy()[targets]
    name = f"{kind}-{_recipe_hash(recipe, truth.graph, ordered)}.npz"
    path = truth.folder.path / "audit" / "shadows" / name
    arrays = _load_arrays(path) or _store_arrays(path, _train_shadows(truth, ordered, recipe))
    place = np.searchsorted(ordered, targets)
    return Shadows(
        arrays["logits"][:, place], arrays["member"][:, place], labels, arrays["around"][:, place]
    )


def _train_shadows(truth: Truth, targets: NDArray[np.int64], recipe: Recipe) -> Arrays:
    if truth.config.audit.shadows == "model":
        return train_shadows(truth.graph, targets, recipe, truth.device)
    labels = truth.graph.labels.numpy()[targets]
    return train_method_shadows(truth, targets, random_halves(labels, recipe.count, recipe.seed))


def train_shadows(
    graph: Graph, targets: NDArray[np.int64], recipe: Recipe, device: torch.device
) -> Arrays:
    """Train the shadows, a batch per group, one after the other, and return what they say."""
    members = random_halves(graph.labels.numpy()[targets], recipe.count, recipe.seed)
    links = links_of(targets, graph.edge_index.numpy(), graph.num_nodes)
    logits, around = [], []
    for start in range(0, recipe.count, GROUP):
        chosen = torch.zeros(len(members[start : start + GROUP]), graph.num_nodes, dtype=torch.bool)
        chosen[:, targets] = torch.from_numpy(members[start : start + GROUP])
        answers = _train_group(graph, chosen, recipe, start, device).cpu().numpy()
        logits.append(answers[:, targets])
        around += [said_around(one, links, targets) for one in answers]
    return {
        "logits": np.concatenate(logits),
        "member": members,
        "around": np.stack(around).astype(np.float32),
    }


def random_halves(labels: NDArray[np.int64], count: int, seed: int) -> NDArray[np.bool_]:
    """Return (count, n): for every shadow, a random half of every class. A coin decides about odd
    members."""
    stream = numpy_stream(seed, "shadow members")
    member = np.zeros((count, len(labels)), bool)
    for shadow in range(count):
        for label in np.unique(labels):
            own = stream.permutation(np.flatnonzero(labels == label))
            member[shadow, own[: (len(own) + int(stream.integers(2))) // 2]] = True
    return member


def _train_group(
    graph: Graph, member: Tensor, recipe: Recipe, start: int, device: torch.device
) -> Tensor:
    shape, whole, features = gcn_inputs(graph, recipe.hidden, device)
    stream = torch_stream(recipe.seed, "shadow", start)
    vectors = torch.stack([shape.initial(stream) for _ in member])
    networks = BatchedGcns(shape, vectors.to(device), recipe.lr, recipe.weight_decay)
    edges = thin_edges(graph, recipe.edges_left_out, stream)
    networks.train(
        recipe.epochs,
        normalized_adjacency(edges, graph.num_nodes).to(device),
        features,
        graph.labels.to(device),
        member.to(device),
        recipe.dropout,
        _stream_on(device, stream, recipe.seed, start),
    )
    return networks.logits(whole, features)


def _stream_on(
    device: torch.device, stream: torch.Generator, seed: int, start: int
) -> torch.Generator:
    """Return the stream for dropout. On the CPU the stream goes on, and any other device has a
    stream of its own."""
    if device.type == "cpu":
        return stream
    return torch_stream(seed, "shadow dropout", start, device=str(device))


def thin_edges(graph: Graph, share: float, stream: torch.Generator) -> Tensor:
    """Return the edges without a random share of them. Both directions of an edge go together."""
    source, target = graph.edge_index
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    _, edge = torch.unique(low * graph.num_nodes + high, return_inverse=True)
    kept = torch.rand(int(edge.max()) + 1 if len(edge) else 0, generator=stream) >= share
    return graph.edge_index[:, kept[edge]]


def _recipe_hash(recipe: Recipe, graph: Graph, targets: NDArray[np.int64]) -> str:
    digest = hashlib.sha256(json.dumps([VERSION, GROUP, vars(recipe)]).encode())
    for tensor in (graph.features, graph.edge_index, graph.labels):
        digest.update(tensor.contiguous().numpy().tobytes())
    digest.update(targets.tobytes())
    return digest.hexdigest()[:16]


def _load_arrays(path: Path) -> Arrays | None:
    if not path.is_file():
        return None
    try:
        arrays = read_npz(path)
    except DataError:
        return None  # they are made again
    return arrays if arrays.keys() >= NAMES else None


def _store_arrays(path: Path, arrays: Arrays) -> Arrays:
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(buffer, logits=arrays["logits"], member=arrays["member"], around=arrays["around"])
    write_atomically(path, buffer.getvalue())
    return arrays


def seconds_for(truth: Truth, count: int) -> float:
    """Return an estimate in seconds, from the times of the run's own rounds."""
    per_round = statistics.fmean(line["seconds"] for line in truth.folder.metrics())
    return count * per_round * int(truth.folder.summary().best_round)


def train_method_shadows(
    truth: Truth, targets: NDArray[np.int64], members: NDArray[np.bool_]
) -> Arrays:
    """Train one federation per row of `members`, one after the other, and return what they
    say."""
    allowed, wanted = truth.config.audit.shadow_seconds, seconds_for(truth, len(members))
    if wanted > allowed:
        raise CannotAttack(
            f"{len(members)} shadows of the method would take {wanted:.0f} s; "
            f"audit.shadow_seconds is {allowed:g}"
        )
    links = links_of(targets, truth.graph.edge_index.numpy(), truth.graph.num_nodes)
    logits, around = [], []
    for number, member in enumerate(members):
        answers = _shadow_answers(truth, targets, member, number)
        logits.append(answers[targets])
        around.append(said_around(answers, links, targets))
    return {
        "logits": np.stack(logits),
        "member": members,
        "around": np.stack(around).astype(np.float32),
    }


def _shadow_answers(
    truth: Truth, targets: NDArray[np.int64], member: NDArray[np.bool_], number: int
) -> NDArray[np.float32]:
    experiment = redraw_experiment(truth.experiment, targets, member, number)
    rounds = int(truth.folder.summary().best_round)
    with tempfile.TemporaryDirectory(prefix="securefg-shadow-") as folder:
        shadow = federate_rounds(experiment, new_truth(experiment, Path(folder)).folder, rounds)
        if shadow.refused:
            raise CannotAttack(f"a shadow of the method was refused: {shadow.refused[0]}")
        found = shadow.truth.answers
    assert found is not None  # the game asks of runs that answer
    answers: NDArray[np.float32] = found.numpy()
    return answers


def redraw_experiment(
    experiment: Experiment, targets: NDArray[np.int64], member: NDArray[np.bool_], number: int
) -> Experiment:
    """Return the experiment from another seed, with these of the targets in training."""
    x, train = experiment, experiment.union.split.train.clone()
    train[torch.from_numpy(targets)] = torch.from_numpy(member)
    seed = derive_seed(x.config.seed, "shadow", number)
    return replace(
        x,
        config=throwaway_config(x.config).model_copy(update={"seed": seed}),
        public=replace(x.public, seed=derive_seed(seed, "server")),
        union=_with_training(x.union, train),
        shards=[replace(s, graph=_with_training(s.graph, train[s.node_ids])) for s in x.shards],
    )


def _with_training(graph: Graph, train: torch.Tensor) -> Graph:
    return replace(graph, split=replace(graph.split, train=train))
