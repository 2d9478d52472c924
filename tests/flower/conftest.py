"""These tests need Flower, which has an environment of its own (`make test-flower`)."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = ["test_*.py"] if find_spec("flwr") is None else []
