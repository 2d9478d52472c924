"""The library: what the commands do, as functions with typed results."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from small import tree
from torch import Tensor, nn

import securefg
from securefg.api import Interrupted
from securefg.foundation.errors import DataError, InputError
from securefg.runs.observing import RoundReport, Silent
from securefg.runs.tensorboard import TensorBoard

if TYPE_CHECKING:
    from torch_geometric.data import Data

LITTLE = ["training.rounds=2"]


class Net(nn.Module):
    def __init__(self, num_features: int, num_classes: int, hidden: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, hidden)
        self.second = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.second(torch.relu(self.first(x)))
        return out


def graph(seed: int = 0) -> Data:
    from torch_geometric.data import Data  # seconds, which collection need not take

    stream = torch.Generator().manual_seed(seed)
    y = torch.arange(60) % 2
    x = torch.randn(60, 5, generator=stream) + 2 * y[:, None]
    nodes = torch.arange(60)
    edges = torch.stack([nodes, (nodes + 2) % 60])
    masks = {f"{part}_mask": nodes % 3 == k for k, part in enumerate(("train", "val", "test"))}
    return Data(x=x, edge_index=edges, y=y, client=nodes % 4, **masks)


def config(root: Path, **more: object) -> dict[str, object]:
    return {
        "method": {"name": "fedavg"},
        "partition": {"name": "given"},
        "training": {"rounds": 3, "lr": 0.05, "patience": None},
        "output": {"root": str(root), "transcript_every": 1},
        **more,
    }


def test_importing_securefg_loads_no_network() -> None:
    code = "import sys, securefg; print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_verb_is_there_whatever_was_imported_before() -> None:
    code = (
        "import securefg.runs.folder, securefg\n"
        "assert callable(securefg.run) and securefg.runs.folder\n"
        "from securefg import run, audit, curve, Attack\n"
        "assert callable(run) and callable(audit) and callable(curve)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_shipped_config_by_name_gives_summary_and_metrics(tmp_path: Path) -> None:
    small = ["data.csbm.num_nodes=100", f"output.root={tmp_path}"]
    result = securefg.run("quickstart", overrides=[*LITTLE, *small])
    assert result.summary.test_accuracy is not None
    assert [report.round for report in result.metrics()] == [1, 2]
    assert result.findings == ()
    assert result.path.parent == tmp_path


def test_a_graph_and_a_network_as_objects_are_run_and_audited(tmp_path: Path) -> None:
    result = securefg.run(config(tmp_path), data=graph(), model=Net)
    assert result.summary.dataset == "folder"
    assert result.config.method.model_dump()["network"].startswith("test_api.Net")
    audit_result = securefg.audit(result, only=["membership_loss"], jobs=1)
    assert {finding.attack for finding in audit_result.findings} >= {"membership_loss"}
    assert result.findings == audit_result.findings
    frame = audit_result.to_frame()
    assert {"gain", "gain_low", "verdict"} <= set(frame.columns)
    assert "membership loss" in audit_result._repr_html_()


def test_the_same_call_gives_the_same_run_and_other_data_another(tmp_path: Path) -> None:
    first = securefg.run(config(tmp_path), data=graph(), overrides=LITTLE)
    again = securefg.run(config(tmp_path), data=graph(), overrides=LITTLE)
    other = securefg.run(config(tmp_path), data=graph(1), overrides=LITTLE)
    assert first.path == again.path
    assert first.path != other.path
    assert first.summary.seconds == again.summary.seconds  # it was not made again


def test_a_network_with_its_weights_starts_from_them(tmp_path: Path) -> None:
    torch.manual_seed(1)
    start = Net(5, 2)
    still = ["training.rounds=1", "training.lr=1.0e-12"]
    result = securefg.run(config(tmp_path), data=graph(), model=start, overrides=still)
    from safetensors.torch import load_file

    released = load_file(result.path / "model.safetensors")
    (vector,) = [value for value in released.values() if value.numel() > 10]
    sent = nn.utils.parameters_to_vector(start.parameters()).detach()
    assert torch.allclose(vector.flatten(), sent, atol=1e-6)
    with torch.no_grad():
        start.first.weight += 1
    other = securefg.run(config(tmp_path), data=graph(), model=start, overrides=still)
    assert other.path != result.path


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"wanted a torch\.nn\.Module"):
        securefg.run(config(tmp_path), data=graph(), model="GCN")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="allowed with a model: fedavg"):
        securefg.run(config(tmp_path, method={"name": "fedgl"}), data=graph(), model=Net)


@pytest.mark.parametrize(
    ("broken", "message_text"),
    [
        ({"y": None}, r"data\.y: found NoneType"),
        ({"y": torch.rand(60)}, "integers"),
        ({"val_mask": torch.ones(60, dtype=torch.bool)}, "in two parts of the split"),
        ({"train_mask": torch.ones(60, 2, dtype=torch.bool)}, "60 booleans"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    tmp_path: Path, broken: dict[str, object], message_text: str
) -> None:
    data = graph()
    for name, value in broken.items():
        setattr(data, name, value)
    with pytest.raises(DataError, match=message_text):
        securefg.run(config(tmp_path), data=data)
    assert not list(tmp_path.glob("data/*"))


class Watch(Silent):
    def __init__(self, stop_after: int) -> None:
        self.seen: list[RoundReport] = []
        self.stop_after = stop_after

    def round_done(self, report: RoundReport) -> None:
        self.seen.append(report)

    def stop_requested(self) -> bool:
        return len(self.seen) == self.stop_after


def test_an_observer_sees_every_round_and_can_stop_a_run_that_goes_on_later(tmp_path: Path) -> None:
    watch = Watch(stop_after=1)
    with pytest.raises(Interrupted):
        securefg.run(tree(tmp_path), observers=[watch])
    securefg.run(tree(tmp_path), observers=[watch])
    whole = Watch(stop_after=-1)
    securefg.run(tree(tmp_path), observers=[whole], fresh=True)
    assert [report.round for report in watch.seen] == [1, 2, 3, 4]
    same = [[replace(r, seconds=0.0) for r in seen] for seen in (watch.seen, whole.seen)]
    assert same[0] == same[1]


def test_frames_figures_and_pages(tmp_path: Path) -> None:
    result = securefg.run(tree(tmp_path))
    frame = result.to_frame()
    assert list(frame["round"]) == [1, 2, 3, 4]
    epsilons = [name for name in frame.columns if name.startswith("epsilon_")]
    assert epsilons
    assert all(frame[name].tolist() == [float("inf")] * 4 for name in epsilons)
    figures = result.figures()
    assert set(figures) >= {"Accuracy", "Loss", "Bytes sent"}
    assert all(svg.lstrip().startswith("<svg") for svg in figures.values())
    page = result._repr_html_()
    assert "test accuracy" in page
    assert "<svg" in page
    assert result.report().is_file()
    assert securefg.open_run(result.path).summary == result.summary


def test_tensorboard_files_hold_the_metrics(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = securefg.run(tree(tmp_path / "runs"), observers=[TensorBoard(tmp_path / "events")])
    stored = EventAccumulator(str(tmp_path / "events"))
    stored.Reload()
    told = [round(event.value, 5) for event in stored.Scalars("test_accuracy")]
    assert told == [round(report.test_accuracy, 5) for report in result.metrics()]


def test_a_curve_from_a_mapping(tmp_path: Path) -> None:
    base = tree(tmp_path / "unused")
    import yaml

    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    wanted = {
        "name": "tiny",
        "seeds": 1,
        "sweeps": [
            {
                "config": str(tmp_path / "base.yaml"),
                "defences": [{"name": "none"}],
                "attacks": ["similar_links"],
            }
        ],
    }
    drawn = securefg.curve(wanted, root=tmp_path / "curves", jobs=1)
    assert drawn.failed == ()
    assert drawn.page.is_file()
    frame = drawn.to_frame()
    assert frame["defence"].tolist() == ["none"] * len(frame)
    assert "similar_links" in set(frame["attack"])
    assert "none" in drawn._repr_html_()
