"""CNFGNN in seconds: users without a word share one row of weights and one state of Adam.

All users go on from one broadcast matrix. A row whose word a user lacks gets weight decay alone,
so its weights and moments are the same for every user who lacks the word. One row per word stands
for all of them, and only rows with a word are kept per user. This is the same computation as with
a whole matrix per user (`tests/unit/papers/test_cnfgnn.py`), on Cora in 1 % of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from papers.best_round import best_scores
from securefg.data.shard import features_of
from securefg.federation.evaluation import Scores
from securefg.federation.roles import Cohort, Replies
from securefg.foundation.streams import derive_seed
from securefg.methods.nfedgnn.algorithm import LatentServer, NodeGoal
from securefg.methods.nfedgnn.messages import Call, Latents, Learn, Learnt
from securefg.methods.nfedgnn.settings import Settings
from securefg.models.user_init import shared_weights
from securefg.models.user_weights import SparseFeatures
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import RunConfig
from securefg.settings.execution import TrainingSettings
from securefg.settings.privacy import NO_DEFENCE

BETAS, EPS = (0.9, 0.999), 1e-8
ENTRIES_AT_ONCE = 1 << 14


def run_cnfgnn(configs: Sequence[RunConfig]) -> dict[str, float]:
    """Return the test accuracy in percent of every run of CNFGNN among these, by its hash."""
    return {config.hash: 100 * finish(config).test_accuracy for config in configs if fits(config)}


def fits(config: RunConfig) -> bool:
    """Return whether this is CNFGNN with all users in every round and without a defence."""
    return (
        isinstance(config.method, Settings)
        and config.method.average
        and config.training.participation == 1
        and config.privacy.mechanism == NO_DEFENCE
        and config.privacy.secure_aggregation is None
    )


def finish(config: RunConfig) -> Scores:
    """Return the scores of a run's best round."""
    experiment = prepare(config)
    training, settings = experiment.config.training, experiment.config.method
    assert isinstance(settings, Settings)
    users = AlikeUsers.of(experiment, settings, training)
    cohort = WholeCohort(users, experiment.public.num_clients)
    server = LatentServer(experiment.public, settings, training, cohort)
    goal = NodeGoal(experiment.union, settings, experiment.public.device)
    return best_scores(lambda number: goal.score(server.round(number)), training)


class AlikeUsers:
    """All users of CNFGNN: the matrix they go on from, and the moments of two kinds of rows."""

    def __init__(self, features: SparseFeatures, start: Tensor, training: TrainingSettings) -> None:
        self.weights, self._features = start, features
        self._columns, self._owners = features.columns.long(), features.owners.long()
        self._with_word = torch.bincount(self._columns, minlength=len(start))[:, None]
        self._lr, self._decay, self._steps = training.lr, training.weight_decay, 0
        self._common = torch.zeros(2, *start.shape)
        self._own = torch.zeros(2, len(self._columns), start.shape[1])

    @classmethod
    def of(cls, experiment: Experiment, settings: Settings, training: TrainingSettings) -> Any:
        """Return the users of a run before its first round."""
        features = SparseFeatures.of(features_of(experiment.shards))
        seed = derive_seed(experiment.config.seed, "clients")
        start = shared_weights(features.num_columns, settings.width, seed)
        return cls(features, start, training)

    def latents(self) -> Tensor:
        """Return x_i W for every user, (n, q)."""
        return embedding_bag(
            self._columns,
            self.weights,
            self._features.offsets,
            mode="sum",
            per_sample_weights=self._features.values,
            include_last_offset=True,
        )

    def sum_after_step(self, gradients: Tensor) -> Tensor:
        """Take every user's step of Adam from the common weights. Return the sum of all W_i."""
        self._steps += 1
        moved = self._move(self._decay * self.weights, self._common)
        without = self._features.num_users - self._with_word
        total: Tensor = without * (self.weights - moved)
        for first in range(0, len(self._columns), ENTRIES_AT_ONCE):
            some = slice(first, first + ENTRIES_AT_ONCE)
            columns = self._columns[some]
            before = self.weights[columns]
            by_word = self._features.values[some, None] * gradients[self._owners[some]]
            moved = self._move(by_word.add_(before, alpha=self._decay), self._own[:, some])
            total.index_add_(0, columns, before.sub_(moved))
        return total

    def _move(self, gradient: Tensor, moments: Tensor) -> Tensor:
        """Update the moments in place. Return lr m_hat / (sqrt(v_hat) + eps)."""
        first, second = moments
        first.lerp_(gradient, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale, root = (1 - beta**self._steps for beta in BETAS)
        spread = second.sqrt().mul_(root**-0.5).add_(EPS)
        move: Tensor = (first * (self._lr / scale)).div_(spread)
        return move


class WholeCohort(Cohort):
    """All users in this process, as CNFGNN's server asks them."""

    def __init__(self, users: AlikeUsers, num_clients: int) -> None:
        self.num_clients, self._users = num_clients, users

    def ask(self, request: Message, reply: Any, clients: Clients | None = None) -> Any:
        """Answer for all users."""
        everyone = Clients(((0, self.num_clients),)) if clients is None else clients
        if isinstance(request, Call):
            if request.weights is not None:
                self._users.weights = request.weights
            return Replies(Latents(latent=self._users.latents()), everyone, ())
        total = self._users.sum_after_step(cast(Learn, request).gradient)
        return Replies(Learnt(number=1, weights=None), everyone, (), {"weights": total})
