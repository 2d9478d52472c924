"""The cost of recording and of the site's gate beside a round of a transformer with 10 M weights.

    .venv/bin/python benchmarks/peers/transformer_cost.py [--sequences 128] [--repeats 3]

A round is the training of two clients, each one epoch over its sequences of 64 tokens. Costs are
CPU seconds of this process. The arms take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import securefg
from securefg.protocol.recording import Recording
from securefg.site.gate import Gate, open_home

CLIENTS, TOKENS, WORDS, BATCH = 2, 64, 4000, 16
CLIP, NOISE = 1.0, 2.5
TARGETS = {"recorded": 1.1, "protected": 1.3}
Weights = dict[str, Any]


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
    """One round after another, plain, recorded, or behind the gate of every site."""

    def __init__(self, size: Size, sequences: int, folder: Path) -> None:
        torch.manual_seed(0)
        self._net = Transformer(size)
        self._texts = torch.randint(WORDS, (sequences, TOKENS + 1))
        self._gates = [self._open_gate(folder / f"site-{client}") for client in range(CLIENTS)]
        self._round = 0
        self.weights = sum(value.numel() for value in self._net.parameters())

    def _open_gate(self, home: Path) -> Gate:
        open_home(home)
        return Gate.of(home, CLIP, NOISE, "replace_one")

    def play_plain(self) -> None:
        """Train all clients."""
        for _ in range(CLIENTS):
            train_epoch(copy.deepcopy(self._net), self._texts)

    def play_recorded(self, recording: Recording) -> None:
        """Train all clients, and record the sent model and all uploads."""
        self._round += 1
        recording.send(self._round, weights_of(self._net), clients=range(CLIENTS))
        for client in range(CLIENTS):
            upload = train_epoch(copy.deepcopy(self._net), self._texts)
            recording.upload(client, self._round, upload)

    def play_protected(self) -> None:
        """Train all clients, and pass every update through its site's gate."""
        base = weights_of(self._net)
        for gate in self._gates:
            update = train_epoch(copy.deepcopy(self._net), self._texts)
            gate.pass_on("cost", base, update, is_change=False)


def measure_cpu(play: Callable[[], None]) -> float:
    """Return the CPU seconds of a call."""
    started = time.process_time()
    play()
    return time.process_time() - started


def measure_ratios(size: Size, sequences: int, repeats: int) -> dict[str, float]:
    """Return the weights, a plain round's CPU seconds, and both ratios to it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exchange = Exchange(size, sequences, folder)
        found: dict[str, list[float]] = {"plain": [], "recorded": [], "protected": []}
        with securefg.record(folder / "exchange") as recording:
            exchange.play_plain()  # the first round pays for what later ones reuse
            for _ in range(repeats):
                found["plain"].append(measure_cpu(exchange.play_plain))
                recorded = measure_cpu(lambda: exchange.play_recorded(recording))
                found["recorded"].append(recorded)
                found["protected"].append(measure_cpu(exchange.play_protected))
    plain = statistics.median(found["plain"])
    ratios = {name: statistics.median(found[name]) / plain for name in TARGETS}
    return {"weights": exchange.weights, "round_seconds": plain, **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description="Recording and the gate beside a transformer.")
    parser.add_argument("--sequences", type=int, default=128, help="of every client, per round")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    found = measure_ratios(Size(), asked.sequences, asked.repeats)
    print(f"{found['weights'] / 1e6:.1f} M weights, {asked.sequences} sequences per client")
    print(f"a plain round of {CLIENTS} clients: {found['round_seconds']:.1f} CPU seconds")
    for name, target in TARGETS.items():
        print(f"{name}: {found[name]:.3f} of a plain round (target {target:g})")


if __name__ == "__main__":
    main()
