"""Flower's quickstart: the template, its two changes, and the data in its place."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

PEERS = Path("benchmarks/peers").resolve()


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", [str(PEERS), str(PEERS / "stand_in"), *sys.path])
    before = set(sys.modules)
    yield importlib.import_module("flower_app")
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("flower_app", "flwr_datasets", "torchvision", "sage_task"):
            del sys.modules[name]


def write_template(folder: Path) -> Path:
    """Write files with the lines of Flower's template that the edits look for."""
    code = folder / "code"
    code.mkdir(parents=True)
    (code / "__init__.py.tpl").write_text('"""$project_name"""\n')
    (code / "client.pytorch.py.tpl").write_text(
        "from flwr.clientapp import ClientApp\nfrom $import_name.task import Net\n"
        "app = ClientApp()\n"
    )
    (code / "server.pytorch.py.tpl").write_text(
        "from flwr.serverapp import Grid\n\n\ndef main(grid: Grid, strategy):\n"
        "    result = strategy.start(\n        grid=grid,\n    )\n    return result\n"
    )
    (code / "task.pytorch.py.tpl").write_text("class Net:\n    pass\n")
    (folder / "pyproject.pytorch.toml.tpl").write_text('[project]\nname = "$package_name"\n')
    return folder


def test_edits_wrap_the_grid_and_add_one_mod(peers: Any, tmp_path: Path) -> None:
    app = tmp_path / "app"
    peers.write_app(app, write_template(tmp_path / "templates"), None)
    edits = [*peers.wrap_grid(tmp_path / "exchange", "classes=10"), *peers.add_mod("SiteGate")]
    for edit in edits:
        edit.apply(app)
    server = (app / "quickstart/server_app.py").read_text()
    compile(server, "server_app.py", "exec")
    assert f"with Recorded(grid, '{tmp_path}/exchange', classes=10) as grid:" in server
    client = (app / "quickstart/client_app.py").read_text()
    compile(client, "client_app.py", "exec")
    assert "app = ClientApp(mods=[SiteGate()])" in client
    assert "from quickstart.task import Net" in client


def test_edit_of_another_template_is_refused(peers: Any, tmp_path: Path) -> None:
    app = tmp_path / "app"
    peers.write_app(app, write_template(tmp_path / "templates"), None)
    (app / "quickstart/client_app.py").write_text("app = None\n")
    with pytest.raises(SystemExit, match="0 times"):
        peers.add_mod("SiteGate")[0].apply(app)


def test_stand_in_deals_the_digits_without_overlap(peers: Any) -> None:
    from flwr_datasets import FederatedDataset, load_held_out  # type: ignore[import-not-found]
    from flwr_datasets.partitioner import IidPartitioner  # type: ignore[import-not-found]
    from torchvision.transforms import (  # type: ignore[import-not-found]
        Compose,
        Normalize,
        ToTensor,
    )

    scale = Compose([ToTensor(), Normalize((0.5,) * 3, (0.5,) * 3)])
    parts = FederatedDataset("any", {"train": IidPartitioner(10)})
    sizes = [len(parts.load_partition(site)) for site in range(10)]
    assert sum(sizes) + len(load_held_out()) == 1797
    halves = parts.load_partition(0).train_test_split(test_size=0.2, seed=42)
    shown = halves.with_transform(lambda b: {**b, "img": [scale(x) for x in b["img"]]})
    image = shown["train"][0]["img"]
    assert image.shape == (3, 32, 32)
    assert -1 <= image.min() < image.max() <= 1


def test_sage_task_learns_where_the_data_are(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    if not os.environ.get("SECUREFG_DATA"):
        pytest.skip("SECUREFG_DATA names no data")
    task = importlib.import_module("sage_task")
    torch.manual_seed(0)
    net, device = task.Net(), torch.device("cpu")
    train, test = task.load_data(0, 2)
    first = task.train(net, train, 1, 0.01, device)
    task.train(net, train, 20, 0.01, device)
    assert task.test(net, train, device)[0] < first
    assert 0 <= task.test(net, test, device)[1] <= 1
    assert len(train.dataset) + len(test.dataset) == train.graph.num_nodes
