"""What `securefg deploy` says and makes, without starting anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from securefg.cli.deploy import app
from securefg.data.shard import load_shards
from securefg.foundation.errors import ConfigError, DataError
from tests.small import tree

pytest.importorskip("nvflare")
BANKS = ("--site", "bank-a", "--site", "bank-b", "--site", "bank-c")


def call(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def written(folder: Path, method: str = "fedgl") -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**tree(folder / "runs", method), "name": "banks"}))
    return path


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy")
    noise = "privacy={mechanism: local_gaussian, noise_multiplier: 2}"
    method = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
    code, _ = call(
        *("provision", written(folder), "--out", folder / "kits", *BANKS),
        *("--set", noise, "--set", method),
    )
    assert code == 0
    return folder / "kits"


def test_every_party_gets_its_own_data_and_nobody_elses(kits: Path) -> None:
    for number, bank in enumerate(("bank-a", "bank-b", "bank-c")):
        shards = list((kits / bank / "securefg" / "shards").iterdir())
        assert [load_shards(path)[0].client for path in shards] == [number]
    assert not list((kits / "localhost").rglob("*.safetensors"))
    job = json.loads((kits / "federation_plan.json").read_text())
    assert job["has_truth"] is False


def test_the_runbook_says_what_leaves_and_how_to_stop(kits: Path) -> None:
    page = (kits / "bank-b" / "RUNBOOK.md").read_text()
    assert "`Update.weights`" in page
    assert "noise multiplier 2" in page
    assert "epsilon per client if the run goes to its end: " in page
    for words in ("pip install", "site_policy.yaml", "deploy ledger", "Ctrl-C"):
        assert words in page


def test_a_site_reviews_the_job_against_its_own_floor(kits: Path) -> None:
    policy = kits / "bank-a" / "securefg" / "site_policy.yaml"
    shipped = policy.read_text()
    code, printed_text = call("review", kits / "bank-a")
    assert code == 1
    assert "the floor refuses it" in printed_text
    assert "Update.weights would leave without masks" in " ".join(printed_text.split())
    own = "methods: [fedgl]\nmasking: optional\nbudget_per_month: null\nbudget_total: null\n"
    policy.write_text(own)
    assert call("review", kits / "bank-a")[0] == 0
    policy.write_text(own + "least_noise: 5")
    code, printed_text = call("review", kits / "bank-a")
    policy.write_text(shipped)
    assert code == 1
    assert "noise multiplier 2; wanted 5" in " ".join(printed_text.split())


def test_a_fresh_sites_ledger_is_empty(kits: Path) -> None:
    said = call("ledger", kits / "bank-c")[1]
    assert "nothing private has left this site" in said
    assert "this month: epsilon 0 per client of 8" in said
    assert "in all: epsilon 0 per client of 16" in said


def test_a_site_makes_its_shard_from_its_own_folder(tmp_path: Path) -> None:
    sizes = ("--nodes", "9", "--features", "2", "--classes", "3")
    out = tmp_path / "kits"
    assert call("provision", written(tmp_path), "--out", out, *BANKS, "--without-data", *sizes)
    own_folder = tmp_path / "own"
    own_folder.mkdir()
    (own_folder / "edges.csv").write_text("0,1\n1,2\n")
    (own_folder / "features.csv").write_text("0,1.0,0.5\n1,0.0,1.0\n2,1.0,1.0\n")
    (own_folder / "labels.csv").write_text("0,0\n1,1\n2,0\n")
    (own_folder / "split.csv").write_text("0,train\n1,val\n2,test\n")
    assert call("shard", out / "bank-b", own_folder, "--first-node", "3")[0] == 0
    (shard,) = load_shards(out / "bank-b" / "securefg" / "shards" / "client-1.safetensors")
    assert shard.client == 1
    assert shard.node_ids.tolist() == [3, 4, 5]
    assert shard.graph.num_classes == 3
    with pytest.raises(DataError, match="nodes 7 to 9; the federation's index has 9"):
        call("shard", out / "bank-b", own_folder, "--first-node", "7")


def test_what_cannot_be_provisioned_is_refused_with_the_reason(tmp_path: Path, kits: Path) -> None:
    config = written(tmp_path)
    with pytest.raises(ConfigError, match="exists; wanted a new folder"):
        call("provision", config, "--out", kits, *BANKS)
    with pytest.raises(ConfigError, match="wants --nodes, --features and --classes"):
        call("provision", config, "--out", tmp_path / "x", "--without-data")
    with pytest.raises(ConfigError, match="wanted different names"):
        call("provision", config, "--out", tmp_path / "x", "--site", "a", "--site", "a")
    with pytest.raises(ConfigError, match="bank a"):
        call("provision", config, "--out", tmp_path / "x", "--site", "bank a")
    nfedgnn, partition = written(tmp_path, "nfedgnn"), "partition={name: one_node}"
    sizes = ("--nodes", "4", "--features", "2", "--classes", "2")
    with pytest.raises(ConfigError, match="the coordinator of nfedgnn has"):
        call(
            *("provision", nfedgnn, "--out", tmp_path / "y", "--set", partition),
            *("--without-data", *sizes),
        )
    with pytest.raises(DataError, match="no kits of `securefg deploy provision`"):
        call("submit", tmp_path)
    with pytest.raises(DataError, match="not a kit"):
        call("start", tmp_path)


def test_start_of_open_kit_is_refused_on_the_terminal(kits: Path) -> None:
    """The reason is shown although FLARE's output is folded away."""
    kit = kits / "bank-c"
    kit.chmod(0o755)
    command = [sys.executable, "-m", "securefg.cli.main", "deploy", "start", str(kit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    kit.chmod(0o700)
    assert done.returncode == 2
    assert f"the whole log is in {kit / 'console.log'}" in done.stdout
    assert "not started" in done.stderr
    assert "mode 0755; wanted 0700" in done.stderr
