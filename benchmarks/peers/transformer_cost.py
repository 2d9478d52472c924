"""The cost of recording and of the site's gate beside a round of a transformer with 10 M weights.

    .venv/bin/python benchmarks/peers/transformer_cost.py [--sequences 64] [--repeats 2]

A plain round is the training of two clients, each one epoch over its sequences of 64 tokens. The
cost of recording covers the sent model and both uploads, and that of the gate both updates. All are
CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import securefg
from securefg.protocol.recording import Recording
from securefg.site.gate import Gate, Update, open_home

CLIENTS, TOKENS, WORDS, BATCH = 2, 64, 4000, 16
CLIP, NOISE = 1.0, 2.5
TARGETS = {"recorded": 1.1, "protected": 1.3}
Weights = dict[str, Any]


class Seconds(NamedTuple):
    """CPU seconds of the parts of one round."""

    trained: float
    recorded: float
    protected: float


@dataclass(frozen=True)
class Size:
    """The width and the number of layers of the transformer."""

    width: int = 320
    layers: int = 6


class Transformer(nn.Module):
    """A causal language model: an embedding, encoder layers and a linear output."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, size.width)
        layer = nn.TransformerEncoderLayer(
            size.width, 8, 4 * size.width, dropout=0.0, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.output = nn.Linear(size.width, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        mixed: Tensor = self.layers(self.embedding(words), mask=mask, is_causal=True)
        scores: Tensor = self.output(mixed)
        return scores


def train_epoch(net: Transformer, texts: Tensor) -> Weights:
    """Train one epoch by SGD. Return the weights as arrays."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for batch in texts.split(BATCH):
        optimizer.zero_grad()
        scores = net(batch[:, :-1])
        functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimizer.step()
    return weights_of(net)


def weights_of(net: Transformer) -> Weights:
    """Return a copy of the weights as numpy arrays."""
    return {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}


class Exchange:
    """Rounds that are trained, recorded and gated, with the CPU seconds of each part."""

    def __init__(self, size: Size, sequences: int, folder: Path) -> None:
        torch.manual_seed(0)
        self._net = Transformer(size)
        self._texts = torch.randint(WORDS, (sequences, TOKENS + 1))
        self._gates = [open_gate(folder / f"site-{client}") for client in range(CLIENTS)]
        self.num_weights = sum(value.numel() for value in self._net.parameters())

    def play_round(self, number: int, recording: Recording) -> Seconds:
        """Train all clients, record the round, and pass every update through its site's gate."""
        base = weights_of(self._net)
        trained = recorded = protected = 0.0
        recorded += measure_cpu(lambda: recording.send(number, base, clients=range(CLIENTS)))
        for client, gate in enumerate(self._gates):
            net, started = copy.deepcopy(self._net), time.process_time()
            update = train_epoch(net, self._texts)
            trained += time.process_time() - started
            recorded += measure_cpu(partial(recording.upload, client, number, update))
            read_update = partial(Update, update, is_change=False)
            passed = partial(gate.pass_on, "cost", base, read_update)
            protected += measure_cpu(passed)
        return Seconds(trained, recorded, protected)


def open_gate(home: Path) -> Gate:
    """Return the gate of a new site."""
    open_home(home)
    return Gate.of(home, CLIP, NOISE, "replace_one")


def measure_cpu(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    started = time.process_time()
    call()
    return time.process_time() - started


def measure_rounds(size: Size, sequences: int, repeats: int) -> dict[str, float]:
    """Return the weights, the CPU seconds of a plain round, and both ratios to it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exchange = Exchange(size, sequences, folder)
        with securefg.record(folder / "exchange") as recording:
            # The first round pays for what later ones reuse.
            round_times = [exchange.play_round(n + 1, recording) for n in range(repeats + 1)][1:]
    plain = statistics.median(one.trained for one in round_times)
    return {
        "weights": exchange.num_weights,
        "round_seconds": plain,
        "recorded": 1 + statistics.median(one.recorded for one in round_times) / plain,
        "protected": 1 + statistics.median(one.protected for one in round_times) / plain,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Recording and the gate beside a transformer.")
    parser.add_argument("--sequences", type=int, default=64, help="of every client, per round")
    parser.add_argument("--repeats", type=int, default=2)
    asked = parser.parse_args()
    cost_figures = measure_rounds(Size(), asked.sequences, asked.repeats)
    print(f"{cost_figures['weights'] / 1e6:.1f} M weights, {asked.sequences} sequences per client")
    print(f"a plain round of {CLIENTS} clients: {cost_figures['round_seconds']:.1f} CPU seconds")
    for name, target in TARGETS.items():
        print(f"{name}: {cost_figures[name]:.3f} of a plain round (target {target:g})")


if __name__ == "__main__":
    main()
