"""What all tests share: no deadlines for hypothesis, one thread for torch, no wait for the disk."""

from __future__ import annotations

import gc
import os

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("numprocesses", None):
        return  # this process hands out tests and needs none of these imports, which take seconds
    import torch
    from hypothesis import settings

    settings.register_profile("securefg", deadline=None)
    settings.load_profile("securefg")
    torch.set_num_threads(1)
    os.fsync = os.fstat  # refuses what is no open file, too; nothing here outlives the machine


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()  # what was imported and collected lives on: no need to look at it again and again
