from __future__ import annotations

import numpy as np
import pytest
import torch

from securefg.data.dataset import Dataset, no_split
from securefg.data.splits import choose_split, draw_folds, draw_shares, draw_split
from securefg.foundation.errors import ConfigError
from securefg.settings.data import SplitSettings


def dataset(labels: torch.Tensor) -> Dataset:
    none = no_split(len(labels))
    edges = torch.zeros(2, 0, dtype=torch.int64)
    return Dataset(torch.zeros(len(labels), 1), edges, labels, none, none, none)


def random_settings(labels_per_class: int, num_val: int, num_test: int) -> SplitSettings:
    return SplitSettings(
        kind="random", labels_per_class=labels_per_class, num_val=num_val, num_test=num_test
    )


def test_a_random_split_has_the_sizes_asked_for_and_no_overlap():
    labels = torch.arange(100) % 4
    split = draw_split(labels, random_settings(5, 30, 40), np.random.default_rng(0))
    assert split.sizes == (20, 30, 40)
    assert torch.bincount(labels[split.train]).tolist() == [5] * 4
    assert int((split.train.int() + split.val.int() + split.test.int()).max()) == 1


def test_a_random_split_follows_the_seed():
    whole = dataset(torch.arange(100) % 4)
    first, again, other = (
        choose_split("cora", whole, random_settings(5, 30, 40), seed) for seed in (1, 1, 2)
    )
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, other.train)


def test_a_class_with_too_few_nodes_gives_half_of_them():
    labels = torch.tensor([0] * 50 + [1] * 9 + [2] * 20 + [3] * 21)
    split = draw_split(labels, random_settings(20, 10, 10), np.random.default_rng(0))
    assert torch.bincount(labels[split.train]).tolist() == [20, 4, 10, 20]


def test_the_split_of_acm_is_one_whatever_the_seed():
    whole = dataset(torch.arange(2000) % 3)
    first, other = (choose_split("acm", whole, SplitSettings(), seed) for seed in (1, 2))
    assert first.sizes == (60, 500, 1000)
    assert torch.equal(first.test, other.test)


def test_too_few_nodes_are_told_with_numbers():
    with pytest.raises(ConfigError, match=r"num_val 50 \+ num_test 60 = 110 .* up to 80"):
        draw_split(torch.arange(100) % 4, random_settings(5, 50, 60), np.random.default_rng(0))


def test_a_class_of_one_node_is_refused():
    labels = torch.tensor([0, 0, 0, 1])
    with pytest.raises(ConfigError, match=r"labels_per_class: 2, but class 1 has 1 nodes"):
        draw_split(labels, random_settings(2, 1, 0), np.random.default_rng(0))


def test_shares_are_of_every_class_and_leave_the_rest_for_testing():
    labels = torch.arange(100) % 4
    settings = SplitSettings(kind="shares", train_share=0.2, val_share=0.4)
    split = draw_shares(labels, settings, np.random.default_rng(0))
    for label in range(4):
        sizes = [int(part[labels == label].sum()) for part in (split.train, split.val, split.test)]
        assert sizes == [5, 10, 10]


def test_shares_that_leave_nothing_to_test_on_are_refused():
    settings = SplitSettings(kind="shares", train_share=0.5, val_share=0.5)
    with pytest.raises(ConfigError, match="leaves nothing to test on"):
        draw_shares(torch.arange(10) % 2, settings, np.random.default_rng(0))


def test_folds_test_every_node_once_and_are_balanced() -> None:
    labels = torch.arange(103) % 4
    splits = [
        draw_folds(labels, SplitSettings(kind="folds", fold=i), np.random.default_rng(5))
        for i in range(5)
    ]
    assert torch.stack([s.test for s in splits]).sum(0).tolist() == [1] * 103
    for split in splits:
        assert (split.train.int() + split.val.int() + split.test.int()).tolist() == [1] * 103
        per_class = torch.bincount(labels[split.test], minlength=4)
        assert int(per_class.max() - per_class.min()) <= 2


def test_a_fold_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="fold: found 5; expected 0 to 4"):
        SplitSettings(kind="folds", fold=5)
