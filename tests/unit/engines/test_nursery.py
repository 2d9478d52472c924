from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from securefg.engines import nursery as room
from securefg.engines.processes import shared_imports
from securefg.settings.config import load_config
from tests.small import config


@pytest.fixture(scope="module")
def own_nursery() -> Iterator[room.Nursery]:
    """Not the one that other tests of this process share."""
    made = room.Nursery()
    yield made
    made.close()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_host_is_born_and_ends_when_it_is_told(own_nursery: room.Nursery) -> None:
    ours, theirs = socket.socketpair()
    child = own_nursery.bear_child(theirs)
    theirs.close()
    assert alive(child.pid)
    child.end()
    assert not alive(child.pid)
    assert ours.recv(1) == b""  # nobody else holds the other end
    ours.close()


def test_a_host_ends_by_itself_when_its_parent_is_gone(own_nursery: room.Nursery) -> None:
    ours, theirs = socket.socketpair()
    child = own_nursery.bear_child(theirs)
    theirs.close()
    ours.close()
    child.end(grace=20)
    assert not alive(child.pid)


def test_a_killed_nursery_leaves_no_host_and_another_takes_its_place(
    own_nursery: room.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_nurseries", [own_nursery])
    ours, theirs = socket.socketpair()
    child = own_nursery.bear_child(theirs)
    theirs.close()
    os.kill(own_nursery._process.pid, signal.SIGKILL)
    own_nursery._process.wait()
    child.end()
    assert ours.recv(1) == b""
    ours.close()
    another = room.start_nursery()
    assert another is not own_nursery
    another.close()


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        (["method.name=fedgl"], ["securefg.methods.fedgl.algorithm"]),
        (["method.name=fedavg"], ["securefg.methods.fedavg.algorithm", "torch_geometric.nn"]),
        (["method.name=tests.contract.failing"], []),
    ],
)
def test_hosts_share_shipped_modules_and_libraries_and_nothing_of_a_users(
    overrides: list[str], wanted: list[str], tmp_path: Path
) -> None:
    assert shared_imports(config(tmp_path, *overrides)) == wanted


def test_hosts_of_private_training_share_what_their_gradients_load() -> None:
    parsed = load_config(Path("configs/fedmlp_sc_dp_sgd.yaml"))
    assert shared_imports(parsed) == ["securefg.methods.fedmlp.algorithm", "torch._dynamo"]
