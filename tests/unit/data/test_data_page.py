"""The page about data says what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from securefg.settings.datasets import DATASETS
from securefg.settings.partition import SHIPPED

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "data.md").read_text()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/reference/data.md", "exec"), {})
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Shard(client=0, 3 nodes")
    assert second.startswith("Shard(client=1, 3 nodes")
    assert last.endswith("edges are with nobody")


def test_every_dataset_stands_on_the_page_with_its_figures():
    for name, info in DATASETS.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.MULTILINE)
        figures = (info.num_nodes, info.num_edges, info.num_features, info.num_classes)
        assert all(f"| {figure} |" in row for figure in figures if figure is not None)


def test_every_partition_stands_on_the_page():
    assert all(re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE) for name in SHIPPED)
