"""What all tests share: no deadlines for hypothesis, one thread for torch, no wait for the disk,
and randomness that a test's name decides."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest

from tests.randomness import Source

source = Source()
os.urandom = source  # before the conftest of a folder that is named on the command line


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("numprocesses", None):
        return  # this process hands out tests and needs none of these imports, which take seconds
    from securefg.foundation.collection import import_uncollected, skip_last_collection

    import_uncollected("torch")
    skip_last_collection()
    import torch
    from hypothesis import settings

    settings.register_profile("securefg", deadline=None)
    settings.load_profile("securefg")
    torch.set_num_threads(1)
    os.fsync = os.fstat  # refuses what is no open file, too; nothing here outlives the machine
    source.begin("before the first test")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    source.begin(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    if fixturedef.scope == "function":
        return (yield)
    with source.within(f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"):
        return (yield)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()  # what was imported and collected lives on: no need to look at it again and again
