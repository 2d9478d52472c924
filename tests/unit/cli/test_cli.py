"""The command line lists, shows, reports, and speaks JSON where it is asked to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.settings.config import config_schema, load_config
from tests.small import tree


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(tree(tmp_path / "runs")))
    return path


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", ["alone", "fedgl", "nfedgnn"]),
        ("datasets", ["cora", "citeseer", "pubmed", "chameleon", "squirrel", "acm", "wiki"]),
        ("partitions", ["shares", "public_private", "one_node", "louvain", "dirichlet", "metis"]),
    ],
)
def test_everything_there_is_is_listed(kind: str, names: list[str]) -> None:
    listed = output("list", kind)
    assert all(name in listed for name in names)


def test_attacks_can_be_listed() -> None:
    assert output("list", "attacks")


def test_the_schema_names_every_setting_and_method() -> None:
    schema = json.loads(output("config", "schema"))
    assert schema == config_schema()
    assert {"method", "data", "seed", "device", "training", "output", "engine"} <= set(
        schema["properties"]
    )
    assert {"method_fedgl", "method_alone"} <= set(schema["$defs"])


def test_a_shown_config_is_complete_and_gives_the_same_hash(
    config_file: Path, tmp_path: Path
) -> None:
    shown = output("config", "show", str(config_file), "--set", "seed=4")
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    assert f"# hash {load_config(again).hash}" in shown
    assert yaml.safe_load(shown)["seed"] == 4


def test_a_run_ends_with_a_table_and_the_path_of_its_report(config_file: Path) -> None:
    text = output("run", str(config_file))
    (folder,) = (config_file.parent / "runs").iterdir()
    assert f"report  {folder / 'report.html'}" in text
    assert f"next    securefg audit {folder}" in text
    assert "expect roughly 10 s on an idle core and" in text.splitlines()[1]
    assert "epsilon per client" in text
    assert (folder / "report.html").stat().st_size > 10_000
    assert output("report", str(folder)).strip() == str(folder / "report.html")


def test_run_of_a_useless_model_says_so_before_its_figures(config_file: Path) -> None:
    wrong = ("--set", "data.label_noise=1.0", "--set", "training.rounds=20")
    text = output("run", str(config_file), *wrong)
    assert text.index("NO BETTER THAN ONE CLASS") < text.index("test accuracy")
    assert "useless model" in " ".join(text.split())


def test_json_is_the_summary_and_nothing_else(config_file: Path) -> None:
    summary = json.loads(output("run", str(config_file), "--json"))
    wanted = {"method", "dataset", "seed", "rounds", "test_accuracy", "val_accuracy", "bytes"}
    assert wanted | {"epsilon", "seconds", "device", "versions", "config_hash"} <= set(summary)
    assert set(summary["bytes"]["up"]) == {"payload", "envelope"}


def test_quiet_says_nothing(config_file: Path) -> None:
    assert output("run", str(config_file), "--quiet") == ""


def test_a_run_folders_config_can_be_run_again(config_file: Path, tmp_path: Path) -> None:
    output("run", str(config_file), "--quiet")
    (folder,) = (config_file.parent / "runs").iterdir()
    copy = tmp_path / "copy.yaml"
    copy.write_text((folder / "config.yaml").read_text())
    assert load_config(copy).hash == load_config(config_file).hash
