"""The truth of a run, for games alone, and the views of it that attacks get."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, Place, View
from attacks.questions import Shadows
from audits.known_noise import noise_on, without_known_noise
from audits.unread_fields import Spoken
from securefg.data.graph import Graph
from securefg.federation.roles import PublicInfo
from securefg.foundation.streams import derive_seed
from securefg.foundation.unique import sorted_unique
from securefg.models.shared_operators import SharedOperators
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.meanings import Meaning, Networks, Other, Weights
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Adversary, view
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.fingerprints import require_data_here, require_same_data
from securefg.runs.folder import RunFolder
from securefg.runs.release_file import read_release
from securefg.settings.config import RunConfig
from securefg.settings.execution import AuditSettings
from securefg.settings.privacy import Unit

UNSAID = Other("its method does not say what it means")
"""Of an array or a word that clients are sent: it may hold what others uploaded."""


@dataclass(frozen=True)
class Truth:
    """A finished run with the data it was made from, loaded and dealt out again from its config."""

    folder: RunFolder
    experiment: Experiment

    @classmethod
    def of(cls, folder: RunFolder) -> Truth:
        """Return the truth of a finished run, from its folder."""
        folder.summary()  # raises where the run has not finished
        require_data_here(folder)  # before any is loaded: what lies here may be somebody else's
        experiment = prepare(folder.config())
        require_same_data(folder, experiment)
        return cls(folder, experiment)

    def judged_by(self, settings: AuditSettings) -> Truth:
        """Return the same run under other settings of its audit, which change nothing in it."""
        config = self.config.model_copy(update={"audit": settings})
        return Truth(self.folder, replace(self.experiment, config=config))

    @property
    def graph(self) -> Graph:
        """Return the graph that all clients hold together, under global ids."""
        return self.experiment.union

    @property
    def method_name(self) -> str:
        """Return the name of the run's method."""
        return self.experiment.method.name

    @property
    def config(self) -> RunConfig:
        """Return the run's config."""
        return self.experiment.config

    @property
    def device(self) -> torch.device:
        """Return the device on which models are evaluated."""
        return self.experiment.public.device

    def claimed(self, unit: Unit) -> float | None:
        """Return the epsilon that the run claims for a unit, or None if it is infinite."""
        found = self.folder.summary().epsilon.get(unit)
        return None if found is None else found.epsilon

    @cached_property
    def meanings(self) -> dict[Place, Meaning]:
        """Return the meaning of every field of the run's messages, under its settings."""
        return self.experiment.method.meanings(self.config.method)

    @cached_property
    def networks(self) -> Networks:
        """Return the layouts of the networks whose weights or rows cross."""
        x = self.experiment
        return x.method.networks(x.config.method, x.public, derive_seed(x.config.seed, "clients"))

    @cached_property
    def spoken(self) -> Spoken:
        """Return everything that is uploaded, sent and released in this run, by meaning."""
        x, settings = self.experiment, self.config.method
        planned = x.method.releases(settings, self.config.training, x.public)
        sent_here = [release for release in planned if release.leaves(bare=x.policy.bare)]
        uploads = {(p.message.kind, p.field): self._as_sent(p) for p in sent_here}
        release = x.method.release
        released = {
            (release.kind, name): self.meanings[release.kind, name]
            for name in release.declarations
            if (release.kind, name) in self.meanings
        }
        sent = {
            (m.kind, name): self.meanings.get((m.kind, name), UNSAID)
            for m in x.method.messages
            for name, declaration in m.declarations.items()
            if not declaration.is_private
            and ((m.kind, name) in self.meanings or m.types[name] & {torch.Tensor, str})
        }
        at_home = not x.method.answers_shown(settings)
        return Spoken(uploads, sent, released, self.answers is not None, at_home)

    def _as_sent(self, planned: PlannedRelease) -> Meaning:
        """Return the meaning of an upload. Weights of another length than their network's hold
        values that no attack on that network reads."""
        meaning = self.meanings[planned.message.kind, planned.field]
        network = self.networks.get(meaning.of or "") if isinstance(meaning, Weights) else None
        if network is None or planned.dim == network.size:
            return meaning
        return Other(f"{planned.dim} numbers, where the network has {network.size}")

    @cached_property
    def samples(self) -> dict[int, Array]:
        """Return the rows that every client trains on, (samples, features)."""
        rows_by_client = {}
        for shard in self.experiment.shards:
            features = shard.graph.features.double()
            train = shard.graph.split.train
            if features.dim() == 3 and train.dim() == 1:  # a node trains with all its samples
                train = train[:, None].expand(features.shape[:2])
            features = features.reshape(-1, features.shape[-1])
            chosen = features[train.reshape(-1)]
            if len(chosen):
                rows_by_client[shard.client] = chosen.numpy()
        return rows_by_client

    @cached_property
    def held_nodes(self) -> NDArray[np.int64]:
        """Return the nodes that some client holds, ascending."""
        return sorted_unique(self.experiment.partition.nodes.numpy())

    @cached_property
    def shadows(self) -> dict[bytes, Shadows]:
        """Return the shadow models that games have made so far, by their targets."""
        return {}

    @cached_property
    def release(self) -> Message | None:
        """Return the released model, or None if the run released none."""
        return read_release(self.folder.path / "model.safetensors", self.experiment.method)

    @cached_property
    def answers(self) -> Tensor | None:
        """Return the released model's logits for every node of the union graph, as others see them,
        or None if they stay at home."""
        return self._answers_on(self.graph)

    def _answers_on(self, graph: Graph) -> Tensor | None:
        x = self.experiment
        if not x.method.answers_shown(x.config.method):
            return None
        if x.method.make_evaluator is None or self.release is None:
            return None
        with self._operators.in_use():
            evaluator = x.method.make_evaluator(graph, x.config.method, x.public.device)
            return evaluator.answers(self.release)

    @cached_property
    def _operators(self) -> SharedOperators:
        """Return what queries of the released model have in common."""
        return SharedOperators()

    def answers_on_edges(self, edges: Tensor) -> Tensor | None:
        """Return the released model's logits over other edges."""
        return self._answers_on(self.graph.with_edges(edges))

    def query(self, adversary: Adversary, nodes: Tensor, features: Tensor) -> Tensor:
        """Return the answers once a client has changed the features of nodes that it holds."""
        held = [self.experiment.shards[k].node_ids for k in sorted(adversary.clients)]
        if not held or not bool(torch.isin(nodes, torch.cat(held)).all()):
            raise ValueError("a client changes the features of its own nodes alone")
        changed = self.graph.features.clone()
        changed[nodes] = features.to(changed)
        found = self._answers_on(replace(self.graph, features=changed))
        assert found is not None
        return found

    def features(self) -> NDArray[np.float32]:
        """Return the features of all nodes, (nodes, features)."""
        found: NDArray[np.float32] = self.graph.features.numpy()
        return found

    def view(self, adversary: Adversary) -> View:
        """Return what this adversary saw and may know. Nothing else reaches an attack."""
        x, everything = self.experiment, adversary.kind != "wire"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tear is the integrity check's to report
            bared = without_known_noise(x, view(self.folder.transcript, adversary))
        released = self.release.values() if everything and self.release else {}
        return View(
            adversary=adversary,
            meanings=self.meanings,
            networks=self.networks,
            training=x.config.training,
            public=x.public if adversary.kind == "server" else _sizes_alone(x.public),
            released={k: v for k, v in released.items() if isinstance(v, torch.Tensor)},
            release_kind=x.method.release.kind,
            answers=self.answers if everything else None,
            own=tuple(x.shards[k] for k in sorted(adversary.clients)),
            query=partial(self.query, adversary)
            if adversary.clients and self.answers is not None
            else None,
            noise=noise_on(x, bared.left_on),
            noise_left=bared.left_on,
            seen=bared.seen,
        )


def _sizes_alone(public: PublicInfo) -> PublicInfo:
    """Return the public sizes, named one by one, so that later entitlements of a server stay with
    the server."""
    return PublicInfo(
        num_nodes=public.num_nodes,
        num_features=public.num_features,
        num_classes=public.num_classes,
        num_clients=public.num_clients,
        seed=public.seed,
        device=public.device,
        num_public=public.num_public,
    )
