"""Shadows of the method itself: small federations of the run's own config, other nodes in training.

A shadow is what the run was: the same clients, graph, channels and noise, for as many rounds as the
released model took, from a seed of its own. Of the targets a half trains, drawn anew; whoever
trains beside them trains in every shadow. Nothing of the run is asked: every shadow has a folder of
its own, which is deleted.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.membership import said_around
from attacks.questions import Shadows
from audits.rehearsals.throwaway import federate, new_truth, throwaway
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.foundation.streams import derive_seed
from securefg.run.assembly import Experiment


def seconds_for(truth: Truth, count: int) -> float:
    """An estimate, from what the run's own rounds took."""
    per_round = statistics.fmean(line["seconds"] for line in truth.folder.metrics())
    return count * per_round * int(truth.folder.summary().best_round)


def train_method_shadows(
    truth: Truth, targets: NDArray[np.int64], members: NDArray[np.bool_]
) -> Shadows:
    """One federation per row of `members`, one after the other."""
    allowed, wanted = truth.config.audit.shadow_seconds, seconds_for(truth, len(members))
    if wanted > allowed:
        raise CannotAttack(
            f"{len(members)} shadows of the method would take {wanted:.0f} s; "
            f"audit.shadow_seconds is {allowed:g}"
        )
    logits, around = [], []
    for number, member in enumerate(members):
        answers = _answers(truth, targets, member, number)
        logits.append(answers[targets])
        around.append(said_around(answers, truth.graph.edge_index.numpy(), targets))
    return Shadows(np.stack(logits), members, np.stack(around).astype(np.float32))


def _answers(
    truth: Truth, targets: NDArray[np.int64], member: NDArray[np.bool_], number: int
) -> NDArray[np.float32]:
    experiment = redrawn(truth.experiment, targets, member, number)
    rounds = int(truth.folder.summary().best_round)
    with tempfile.TemporaryDirectory(prefix="securefg-shadow-") as folder:
        shadow = federate(experiment, new_truth(experiment, Path(folder)).folder, rounds)
        if shadow.refused:
            raise CannotAttack(f"a shadow of the method was refused: {shadow.refused[0]}")
        found = shadow.truth.answers
    assert found is not None  # the game asks of runs that answer
    answers: NDArray[np.float32] = found.numpy()
    return answers


def redrawn(
    experiment: Experiment, targets: NDArray[np.int64], member: NDArray[np.bool_], number: int
) -> Experiment:
    """The experiment from another seed, with these of the targets in training."""
    x, train = experiment, experiment.union.split.train.clone()
    train[torch.from_numpy(targets)] = torch.from_numpy(member)
    seed = derive_seed(x.config.seed, "shadow", number)
    return replace(
        x,
        config=throwaway(x.config).model_copy(update={"seed": seed}),
        public=replace(x.public, seed=derive_seed(seed, "server")),
        union=_training(x.union, train),
        shards=[replace(s, graph=_training(s.graph, train[s.node_ids])) for s in x.shards],
    )


def _training(graph: Graph, train: torch.Tensor) -> Graph:
    return replace(graph, split=replace(graph.split, train=train))
