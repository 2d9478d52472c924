"""A cache of its own for every test, and a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.data.graph import Graph
from tests.unit.data.graphs import random_graph


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SECUREFG_CACHE", str(folder))
    return folder


@pytest.fixture
def graph() -> Graph:
    return random_graph()
