"""A plain FedAvg exchange of numpy arrays, written down so that `securefg audit` can read it.

Nothing here uses securefg but the writer: the model (one hidden layer, softmax), its gradients and
the averaging are numpy. Half of the clients hold one sample of 0 and 1, half hold eight.

    python examples/fedavg_numpy/exchange.py OUT              nothing protects the uploads
    python examples/fedavg_numpy/exchange.py OUT --sigma 5    clipped and noised, with the claim
    ... --real-sigma 4                                        less noise than is claimed
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefg.protocol.exchange import (
    Claim,
    Exchange,
    ExchangeWriter,
    FirstLayer,
    Layer,
    Place,
    Upload,
)

Array = NDArray[np.float64]
CLIENTS, INPUTS, HIDDEN, CLASSES, ROUNDS = 10, 60, 32, 3, 5
LR, CLIP, DELTA = 0.5, 1.0, 1e-5
SHAPES = {"W1": (HIDDEN, INPUTS), "b1": (HIDDEN,), "W2": (CLASSES, HIDDEN), "b2": (CLASSES,)}
CANARY = CLIENTS
"""One client more, who uploads zeros and nothing else: its noise can be seen."""


def split(flat: Array) -> list[Array]:
    sizes = [int(np.prod(shape)) for shape in SHAPES.values()]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES.values(), strict=True)]


def gradient(flat: Array, x: Array, y: NDArray[np.int64]) -> Array:
    """Of the mean cross-entropy of softmax(W2 relu(W1 x + b1) + b2)."""
    w1, b1, w2, b2 = split(flat)
    hidden = np.maximum(x @ w1.T + b1, 0)
    scores = hidden @ w2.T + b2
    error = np.exp(scores - scores.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    back = (error @ w2) * (hidden > 0)
    parts = (back.T @ x, back.sum(0), error.T @ hidden, error.sum(0))
    return np.concatenate([part.ravel() for part in parts])


def draw_data(rng: np.random.Generator) -> list[tuple[Array, NDArray[np.int64]]]:
    """Words by class: every class prefers a third of them."""
    clients = []
    for client in range(CLIENTS):
        y = rng.integers(CLASSES, size=1 if client < CLIENTS // 2 else 8)
        liked = np.arange(INPUTS) % CLASSES == y[:, None]
        clients.append(((rng.random((len(y), INPUTS)) < np.where(liked, 0.3, 0.05)) * 1.0, y))
    return clients


def clipped(row: Array) -> Array:
    return row * min(1.0, CLIP / max(float(np.linalg.norm(row)), 1e-12))


def describe(claim: Claim | None, control: Path | None) -> Exchange:
    return Exchange(
        name="fedavg_numpy",
        clients=CLIENTS + (claim is not None),
        upload=Upload(kind="fedavg.Update", field="change", holds="change"),
        sent=Place(kind="fedavg.Model", field="weights"),
        layers=tuple(Layer(name=name, shape=shape) for name, shape in SHAPES.items()),
        first_layer=FirstLayer(weight="W1", bias="b1"),
        claim=claim,
        repeats=() if claim is None else (CANARY,),
        control=control,
    )


def exchange(
    out: Path,
    *,
    sigma: float = 0.0,
    real_sigma: float | None = None,
    epsilon: float | None = None,
    control: Path | None = None,
    seed: int = 0,
) -> None:
    """Train, and write every message down.

    sigma, epsilon  what is claimed; real_sigma  the noise that is really drawn, if another
    """
    rng = np.random.default_rng(seed)
    data = draw_data(rng)
    weights = rng.normal(size=sum(int(np.prod(s)) for s in SHAPES.values())) / np.sqrt(HIDDEN)
    claim = None
    if sigma:
        told = epsilon if epsilon is not None else honest_epsilon(sigma)
        claim = Claim(epsilon=told, delta=DELTA, clip_l2=CLIP, sigma=sigma)
    drawn = sigma if real_sigma is None else real_sigma
    rule = {"change": "plain" if claim is None else "gaussian"}
    writer = ExchangeWriter(out, describe(claim, control))
    for number in range(1, ROUNDS + 1):
        everybody = range(CLIENTS + (claim is not None))
        writer.sent(number, "fedavg.Model", {"weights": weights.astype(np.float32)}, everybody)
        changes = []
        for client in everybody:
            change = np.zeros_like(weights)
            if client != CANARY:
                change = -LR * gradient(weights, *data[client])
            if claim is not None:
                change = clipped(change) + drawn * rng.normal(size=len(change))
            upload = {"change": change.astype(np.float32)}
            writer.received(number, "fedavg.Update", upload, client, rule)
            changes.append(change)
        weights = weights + np.mean(changes[:CLIENTS], axis=0)
    writer.truth({client: x for client, (x, _) in enumerate(data)})
    writer.close()


def honest_epsilon(sigma: float) -> float:
    """What sigma gives for ROUNDS releases of replaced uploads, rounded up."""
    from audits.empirical_epsilon import epsilon_of_mu

    return float(np.ceil(epsilon_of_mu(2 * CLIP * ROUNDS**0.5 / sigma, DELTA) * 100) / 100)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A FedAvg exchange for `securefg audit`.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--sigma", type=float, default=0.0, help="claimed noise; 0 for none")
    parser.add_argument("--real-sigma", type=float, default=None, help="noise that is drawn")
    parser.add_argument("--control", type=Path, default=None, help="the exchange without noise")
    parser.add_argument("--seed", type=int, default=0)
    asked: dict[str, Any] = vars(parser.parse_args(arguments))
    exchange(asked.pop("out"), **asked)


if __name__ == "__main__":
    main()
