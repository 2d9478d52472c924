"""A batch of FedGL runs learns what the engine teaches each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from papers.fedgl_batch import Together, fits, groups_of
from securefg.methods.fedgl.messages import Globals
from securefg.methods.registry import get_method
from securefg.runs import runner
from securefg.runs.release_file import read_release
from securefg.settings.config import RunConfig, load_config
from securefg.settings.execution import TrainingSettings
from tests.small import tree

VARIANTS = (
    (),
    ("method.pseudo_labels=false", "method.pseudo_graph=false"),
    ("method.pseudo_graph=false", "method.loss=sum", "method.threshold=0.1"),
    ("method.pseudo_labels=false", "method.degree=weight"),
    ("training.participation=0.7", "method.num_neighbors=5"),
)


def configs(root: Path, *variants: tuple[str, ...]) -> list[RunConfig]:
    path = root / "small.yaml"
    path.write_text(yaml.safe_dump(tree(root)))
    common = ("training.rounds=2", "training.local_epochs=2", "output.transcript_every=0")
    return [load_config(path, [*common, *variant]) for variant in variants]


def test_batch_of_settings_agrees_with_the_engine(tmp_path: Path) -> None:
    made = configs(tmp_path, *VARIANTS)
    (group,) = groups_of(made)
    together = Together(group)
    found = {run.config.hash: run for run in together.finish()}
    for config in made:
        run, summary = found[config.hash], runner.start(config).summary
        assert summary is not None
        assert run.best.round == summary.best_round
        assert run.test_accuracy == pytest.approx(summary.test_accuracy, abs=1e-6)
        assert run.scores is not None
        assert run.scores.val_loss == pytest.approx(summary.val_loss, abs=1e-6)
        assert run.best.score == pytest.approx(summary.val_accuracy, abs=1e-6)


def test_batch_weights_agree_with_the_engine_to_1e_6(tmp_path: Path) -> None:
    made = configs(tmp_path, *VARIANTS[:3])
    made = [config.model_copy(update={"training": last(config)}) for config in made]
    together = Together(made)
    for run in together.finish():
        folder = runner.start(run.config).folder
        release = read_release(folder.path / "model.safetensors", get_method("fedgl"))
        assert release is not None
        assert isinstance(release, Globals)
        difference = (run.weights - release.weights).abs()
        # Adam's first step divides a gradient by its size: one of nearly zero has no sure sign.
        assert float(difference.quantile(0.99)) < 1e-6
        assert float(difference.max()) < 1e-4


def last(config: RunConfig) -> TrainingSettings:
    return config.training.model_copy(update={"final_model": "last", "patience": None})


def test_other_methods_and_noise_are_left_to_the_engine(tmp_path: Path) -> None:
    (renormalised,) = configs(tmp_path, ("method.fusion=renormalised",))
    (alone,) = configs(tmp_path, ("method={name: alone}",))
    assert not fits(renormalised)
    assert not fits(alone)
