"""What a test draws from the system follows from its name, and no two processes draw the same."""

from __future__ import annotations

import os

import numpy as np
import torch

from securefg.privacy.noise import SystemNoise
from securefg.protocol.codec import Clients
from securefg.secagg.secret import Secret
from tests import randomness
from tests.forks import ended, in_a_fork


def test_noise_and_keys_come_from_the_tests_own_stream() -> None:
    """A thread that an earlier test left behind may draw megabytes from the stream before."""
    ours = randomness.Source()
    ours.begin(os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)"))
    assert Secret.fresh().reveal() in ours(1 << 20)


def test_the_same_name_gives_the_same_and_another_another() -> None:
    drawn = [randomness.Drawn(name)(64) for name in ("one", "one", "other")]
    assert drawn[0] == drawn[1] != drawn[2]


def test_noise_is_not_drawn_twice() -> None:
    clients = Clients.of([0, 1])
    first, second = (SystemNoise().normal(torch.Size([2, 50]), clients, ()) for _ in range(2))
    assert not np.isclose(first, second).any()


def test_children_draw_from_the_system() -> None:
    expected = randomness.Drawn("a stream")
    ours = randomness.Drawn("a stream")
    assert ours(32) == expected(32)

    def child() -> None:
        assert ours(32) != expected._stream.update(bytes(32))

    assert ended(in_a_fork(child)) == 0
