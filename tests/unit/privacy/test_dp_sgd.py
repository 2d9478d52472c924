"""DP-SGD clips every sample, adds the planned noise, and is refused where samples mix."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.models.gcn import normalized_adjacency, run_gcn
from securefg.models.sparse import feature_matrix
from securefg.privacy.accountants import claim, tightest
from securefg.privacy.defences.dp_sgd import DpSgd, Weights, per_sample_gradients, train
from securefg.privacy.noise import SeededNoise, SystemNoise
from securefg.privacy.private_training import (
    Samples,
    TrainingPlan,
    mlp_loss,
    refuse_where_samples_share_neighbours,
)
from securefg.protocol.codec import Clients

K, N, D, H, C = 3, 12, 10, 64, 2
EVERYBODY = Clients(((0, K),))
NAME = ("Update", "weights", 1)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def initial(num_clients: int = K) -> Weights:
    draws = stream()
    one = torch.randn(1, D, H, generator=draws), torch.randn(1, H, C, generator=draws)
    return tuple(0.2 * w.double().expand(num_clients, -1, -1) for w in one)


def samples() -> Samples:
    draws = stream(1)
    inputs = torch.randn(K, N, D, generator=draws).double()
    return Samples(inputs, torch.randint(0, C, (K, N), generator=draws))


def plan(**given: float) -> TrainingPlan:
    usual = {"num_steps": 1, "lr": 0.1, "clip_l2": 1.0, "noise_multiplier": 1.0, "sampling": 1.0}
    return TrainingPlan(**{**usual, **given})  # type: ignore[arg-type]


def by_loop(weights: Weights, data: Samples) -> Tensor:
    """Per-sample gradients the slow way: one backward pass each."""
    rows = []
    for k in range(len(data.inputs)):
        own = tuple(w[k].clone().requires_grad_() for w in weights)
        for x, y in zip(data.inputs[k], data.labels[k], strict=True):
            found = torch.autograd.grad(mlp_loss(own, x, y), own)
            rows.append(torch.cat([g.flatten() for g in found]))
    return torch.stack(rows).reshape(len(data.inputs), -1, D * H + H * C)


def flat(weights: Weights) -> Tensor:
    return torch.cat([w.flatten(1) for w in weights], dim=1)


class Recorded(SeededNoise):
    """Remembers what was drawn, and can leave the noise out."""

    def __init__(self) -> None:
        super().__init__(3)
        self.drawn: list[Tensor] = []

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        self.drawn.append(super().normal(shape, clients, name))
        return self.drawn[-1]


# ----------------------------------------------------------------------------------- gradients


def test_per_sample_gradients_are_those_of_an_explicit_loop() -> None:
    found = per_sample_gradients(initial(), samples(), mlp_loss)
    assert torch.allclose(found, by_loop(initial(), samples()), atol=1e-12)


def test_per_sample_gradients_are_those_of_opacus() -> None:
    from opacus.grad_sample import GradSampleModule

    data, weights = samples(), initial()
    layers = [torch.nn.Linear(D, H, bias=False), torch.nn.Linear(H, C, bias=False)]
    with torch.no_grad():
        for layer, w in zip(layers, weights, strict=True):
            layer.weight = torch.nn.Parameter(w[0].T.clone())
    model = GradSampleModule(
        torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1]), loss_reduction="sum"
    )
    logits = model(data.inputs[0].clone().requires_grad_())
    torch.nn.functional.cross_entropy(logits, data.labels[0], reduction="sum").backward()
    theirs = [p.grad_sample.transpose(1, 2).flatten(1) for p in model.parameters()]
    ours = per_sample_gradients(weights, data, mlp_loss)[0]
    assert torch.allclose(ours, torch.cat(theirs, dim=1), atol=1e-12)


def test_a_step_adds_up_gradients_that_are_each_clipped() -> None:
    """Against the explicit loop, with a bound that some gradients pass and some do not."""
    gradients = by_loop(initial(), samples())
    bound = float(gradients.norm(dim=2).median())
    clipped = torch.stack(
        [g if g.norm() <= bound else g * bound / g.norm() for g in gradients.reshape(K * N, -1)]
    ).reshape(K, N, -1)
    assert float(clipped.norm(dim=2).max()) <= bound * (1 + 1e-12)
    chosen = plan(clip_l2=bound, noise_multiplier=0.0)
    after = train(initial(), samples(), mlp_loss, chosen, SystemNoise(), EVERYBODY, NAME).weights
    moved = (flat(initial()) - flat(after)) * N / chosen.lr
    assert torch.allclose(moved, clipped.sum(1), atol=1e-12)


def test_one_sample_moves_the_weights_by_no_more_than_the_clip() -> None:
    """Whatever the sample is: here it is made enormous, and then taken out."""
    data = samples()
    data.inputs[:, 0] *= 1e6
    without = Samples(data.inputs.clone(), data.labels)
    without.inputs[:, 0] = 0  # a zero input has a zero gradient
    chosen = plan(clip_l2=0.5, noise_multiplier=0.0)
    both = [
        flat(train(initial(), d, mlp_loss, chosen, SystemNoise(), EVERYBODY, NAME).weights)
        for d in (data, without)
    ]
    distance = (both[0] - both[1]).norm(dim=1) * N / chosen.lr
    assert float(distance.max()) == pytest.approx(0.5)


# ------------------------------------------------------------------------------ plain SGD


def test_without_noise_and_with_a_huge_clip_it_is_plain_gradient_descent_step_for_step() -> None:
    data, reference = samples(), initial()
    for num_steps in range(1, 5):
        stepped = []
        for k in range(K):
            own_weights = tuple(w[k].clone().requires_grad_() for w in reference)
            logits = torch.relu(data.inputs[k] @ own_weights[0]) @ own_weights[1]
            mean = torch.nn.functional.cross_entropy(logits, data.labels[k])
            stepped.append(
                [
                    w - 0.1 * g
                    for w, g in zip(
                        own_weights, torch.autograd.grad(mean, own_weights), strict=True
                    )
                ]
            )
        reference = tuple(torch.stack(ws).detach() for ws in zip(*stepped, strict=True))
        chosen = plan(num_steps=num_steps, clip_l2=1e9, noise_multiplier=0.0)
        found = train(initial(), data, mlp_loss, chosen, SystemNoise(), EVERYBODY, NAME)
        assert torch.allclose(flat(found.weights), flat(reference), atol=1e-10)


def test_with_sampling_it_is_sgd_on_the_samples_drawn_over_their_expected_number() -> None:
    noise = Recorded()
    chosen = plan(clip_l2=1e9, noise_multiplier=0.0, sampling=0.3)
    after = train(initial(), samples(), mlp_loss, chosen, noise, EVERYBODY, NAME).weights
    drawn = noise.drawn[0] < -0.5244005127080407  # the 30 % quantile of the normal law
    assert 0 < int(drawn.sum()) < K * N
    expected = (by_loop(initial(), samples()) * drawn[:, :, None]).sum(1) * 0.1 / (0.3 * N)
    assert torch.allclose(flat(initial()) - flat(after), expected, atol=1e-10)


def test_a_clients_context_enters_its_own_gradients_alone() -> None:
    """GFL: y_hat = softmax(a_kk h_ks + C_k), with a_kk and C_k each client's own."""

    def loss(weights: Weights, x: Tensor, y: Tensor, own: Tensor, others: Tensor) -> Tensor:
        hidden = torch.relu(x @ weights[0]) @ weights[1]
        return torch.nn.functional.cross_entropy(own * hidden + others, y)

    data = samples()
    context = (torch.tensor([0.2, 0.5, 1.0]).double(), torch.zeros(K, C).double())
    found = per_sample_gradients(initial(), Samples(data.inputs, data.labels, context), loss)
    assert torch.allclose(found[2], by_loop(initial(), data)[2], atol=1e-12)
    assert not torch.allclose(found[0], by_loop(initial(), data)[0], atol=1e-3)


# -------------------------------------------------------------------------- noise and sampling


def no_signal(weights: Weights, sample: Tensor, label: Tensor) -> Tensor:
    return sum(w.sum() for w in weights) * 0.0  # type: ignore[return-value]


def test_the_noise_has_the_planned_standard_deviation() -> None:
    """lr z C / (q n) on every weight of every client, by Kolmogorov-Smirnov at one in a million."""
    chosen = plan(lr=0.2, clip_l2=3.0, noise_multiplier=1.5, sampling=0.25)
    after = train(initial(), samples(), no_signal, chosen, SystemNoise(), EVERYBODY, NAME).weights
    stddev = 0.2 * 1.5 * 3.0 / (0.25 * N)
    moved = (flat(after) - flat(initial())).numpy() / stddev
    assert kstest(moved.ravel(), "norm").pvalue > 1e-6
    assert abs(np.corrcoef(moved)[0, 1]) < 6 / math.sqrt(moved.shape[1])


def test_each_step_and_each_client_has_noise_of_its_own() -> None:
    noise = Recorded()
    train(initial(), samples(), no_signal, plan(num_steps=4), noise, EVERYBODY, NAME)
    rows = torch.cat([drawn for drawn in noise.drawn if drawn.shape[1] > N])
    assert len(rows) == 4 * K
    assert len(torch.unique(rows)) == rows.numel()


def test_samples_are_drawn_by_poisson_at_the_planned_rate() -> None:
    """Each on its own: the number drawn is binomial in its mean and in its variance."""
    noise, trials = Recorded(), 400
    chosen = plan(num_steps=trials, noise_multiplier=0.0, sampling=0.2)
    one = Samples(torch.zeros(K, N, 1).double(), torch.zeros(K, N))
    weights = (torch.zeros(K, 1).double(),)
    train(weights, one, lambda w, x, y: (w[0] * x).sum(), chosen, noise, EVERYBODY, NAME)
    drawn = torch.stack(noise.drawn[::2]) < -0.8416212335729143
    counts = drawn.sum(2).double().flatten()
    spread = 6 / math.sqrt(len(counts))
    assert abs(float(counts.mean()) - 0.2 * N) < spread * math.sqrt(0.16 * N)
    assert abs(float(counts.var()) - 0.16 * N) < spread * 0.16 * N * math.sqrt(2)


def test_the_result_does_not_depend_on_who_shares_a_host() -> None:
    chosen, data, noise = plan(num_steps=3, sampling=0.5), samples(), SeededNoise(5)
    together = train(initial(), data, mlp_loss, chosen, noise, EVERYBODY, NAME).weights
    for k in range(K):
        own = Samples(data.inputs[k : k + 1], data.labels[k : k + 1])
        alone = train(initial(1), own, mlp_loss, chosen, noise, Clients.of([k]), NAME).weights
        assert torch.allclose(flat(alone)[0], flat(together)[k], atol=1e-12)


# --------------------------------------------------------------------------------- accounting


def test_the_charge_per_sample_has_the_known_value() -> None:
    chosen = plan(num_steps=1000, noise_multiplier=1.0, sampling=0.01)
    assert tightest(chosen.steps_per_sample(), 1e-5) == pytest.approx(1.8282, abs=5e-5)


def test_the_booked_mechanism_gives_the_same_claim_per_sample() -> None:
    chosen = plan(num_steps=1000, noise_multiplier=1.0, sampling=0.01)
    booked = {DpSgd(chosen, N).fact("Update.weights", 1, 1, protects=True): 1}
    assert claim([booked], "row", 1e-5).epsilon == tightest(chosen.steps_per_sample(), 1e-5)


def test_what_is_returned_is_charged_as_planned() -> None:
    chosen = plan(num_steps=2, sampling=0.5)
    found = train(initial(), samples(), mlp_loss, chosen, SystemNoise(), EVERYBODY, NAME)
    assert found.steps == chosen.steps_per_sample()


def test_a_clients_samples_together_move_the_sum_n_times_as_far_and_are_charged_so() -> None:
    """Equal samples add up to n C in one vector, not to sqrt(n) C: z / n is needed, and tight."""
    data = samples()
    same = Samples(data.inputs[:, :1].expand(-1, N, -1), data.labels[:, :1].expand(-1, N))
    chosen = plan(clip_l2=0.01, noise_multiplier=0.0)
    after = train(initial(), same, mlp_loss, chosen, SystemNoise(), EVERYBODY, NAME).weights
    moved = (flat(initial()) - flat(after)).norm(dim=1) * N / chosen.lr
    assert float(moved.max()) == pytest.approx(N * chosen.clip_l2)
    (step,) = plan(noise_multiplier=3.0, sampling=0.1).steps_per_client(N)
    assert (step.noise_multiplier, step.sampling) == (3.0 / N, 1.0)


def test_without_noise_there_is_no_charge_to_ask_for_and_the_claim_is_infinite() -> None:
    silent = plan(noise_multiplier=0.0)
    for ask in (silent.steps_per_sample, lambda: silent.steps_per_client(N)):
        with pytest.raises(PrivacyError, match="no epsilon"):
            ask()
    booked = {DpSgd(silent, N).fact("Update.weights", 1, 1, protects=True): 1}
    assert claim([booked], "row", 1e-5).epsilon == math.inf


# ----------------------------------------------------------------------------------- refusals


def test_a_graph_convolution_is_refused_with_the_reason() -> None:
    """One edge among many lone nodes is enough."""
    edges = torch.tensor([[5, 6], [6, 5]])
    adjacency = normalized_adjacency(edges, N)
    weights = tuple(w[0].float() for w in initial())

    def forward(inputs: Tensor) -> Tensor:
        return run_gcn(weights, adjacency, feature_matrix(inputs))[1]

    with pytest.raises(ConfigError, match=r"shared neighbours.*local_gaussian"):
        refuse_where_samples_share_neighbours("gcn", forward, samples().inputs[0].float())


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(range(5), 2)))
def test_a_single_one_way_dependence_is_found(source: int, target: int) -> None:
    mixing = torch.eye(5).to_sparse_coo() + torch.sparse_coo_tensor(
        torch.tensor([[target], [source]]), torch.ones(1), (5, 5)
    )
    with pytest.raises(ConfigError, match="refused"):
        refuse_where_samples_share_neighbours("mixed", lambda x: mixing @ x, torch.ones(5, 3))


def test_batch_statistics_are_refused() -> None:
    layer = torch.nn.BatchNorm1d(D).double()
    with pytest.raises(ConfigError, match="statistics of the batch"):
        refuse_where_samples_share_neighbours("norm", layer, samples().inputs[0])


@pytest.mark.parametrize("number", [1, 2, 3, 12])
def test_an_encoder_of_single_samples_passes(number: int) -> None:
    first, second = (w[0] for w in initial())
    refuse_where_samples_share_neighbours(
        "mlp", lambda x: torch.relu(x @ first) @ second, samples().inputs[0, :number]
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_steps", 0),
        ("lr", -1.0),
        ("clip_l2", 0.0),
        ("clip_l2", math.inf),
        ("noise_multiplier", -0.1),
        ("noise_multiplier", math.nan),
        ("sampling", 0.0),
        ("sampling", 1.1),
    ],
)
def test_a_plan_that_bounds_nothing_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        plan(**{key: value})


def test_train_gradient_not_finite_counts_as_zero() -> None:
    """To fail on one sample's value before the noise would tell that value."""
    broken, whole = samples(), samples()
    broken.inputs[0, 0, 0] = math.nan
    made = [
        flat(
            train(
                initial(), data, mlp_loss, plan(sampling=1.0), SeededNoise(1), EVERYBODY, NAME
            ).weights
        )
        for data in (broken, whole)
    ]
    assert all(bool(found.isfinite().all()) for found in made)
    assert not torch.equal(*made)
