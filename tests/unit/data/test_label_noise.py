"""Label noise touches training labels alone, in the asked share, always to another class."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from securefg.data.graph import Graph, Split
from securefg.data.splits import with_label_noise
from securefg.foundation.errors import ConfigError


def graph(labels: torch.Tensor) -> Graph:
    at = torch.arange(len(labels))
    split = Split(at < 200, (at >= 200) & (at < 250), at >= 250)
    edges = torch.empty(2, 0, dtype=torch.long)
    return Graph("g", torch.zeros(len(labels), 1), edges, labels, split, num_classes=4)


def test_only_training_labels_change_and_each_to_another_class() -> None:
    clean = graph(torch.arange(300) % 4)
    noisy = with_label_noise(clean, 0.15, np.random.default_rng(0))
    changed = noisy.labels != clean.labels
    assert int(changed[:200].sum()) == 30
    assert not changed[200:].any()
    assert noisy.labels.min() >= 0
    assert noisy.labels.max() < 4


def test_without_noise_the_graph_stays() -> None:
    clean = graph(torch.arange(300) % 4)
    assert with_label_noise(clean, 0.0, np.random.default_rng(0)) is clean


def test_samples_with_labels_of_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="label_noise"):
        with_label_noise(graph(torch.zeros(300, 2)), 0.1, np.random.default_rng(0))
