"""Methods, defences, attacks, networks, datasets and partitions from outside run as documented."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from tests.forks import securefg

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SMALL = ("--set", "training.rounds=2", "--set", "partition.num_clients=3")


def copy(name: str, into: Path) -> None:
    for file in (EXAMPLES / name).glob("*.*"):
        (into / file.name).write_bytes(file.read_bytes())


@pytest.fixture(scope="module")
def geometric() -> None:
    """Import torch-geometric, so that forks of this process need not."""
    importlib.import_module("torch_geometric.nn")


@pytest.fixture(scope="module")
def audited(geometric: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The example method, run and audited with the example attack beside the shipped ones."""
    here = tmp_path_factory.mktemp("own")
    copy("own_method", here)
    copy("own_attack", here)
    ran = securefg("run", "fedsage.yaml", "--quiet", "--set", "training.rounds=12", cwd=here)
    assert ran.returncode == 0, ran.stderr
    (run,) = (here / "runs").iterdir()
    own = ("--attack", "margin", "--attack", "hubs")
    done = securefg("audit", str(run), "--trust-modules", *own, cwd=here)
    assert done.returncode == 0, done.stderr + done.stdout
    return run, done.stdout


def findings(run: Path) -> list[dict[str, object]]:
    tree = json.loads((run / "audit" / "findings.json").read_text())
    return list(tree["findings"])


def test_the_example_method_is_short() -> None:
    assert len((EXAMPLES / "own_method" / "fedsage.py").read_text().splitlines()) <= 90


def test_a_method_that_nobody_knows_is_attacked_and_its_leak_is_found(
    audited: tuple[Path, str],
) -> None:
    findings_by_question = {(f["attack"], f["adversary"]): f for f in findings(audited[0])}
    for attack in ("membership_rmia", "membership_lira"):
        assert findings_by_question[attack, "outsider"]["verdict"] == "LEAK"
    assert findings_by_question["influence_links", "client:0"]["verdict"] == "LEAK"
    assert findings_by_question["first_layer_samples", "server"]["measured"] is True


def test_what_was_not_attacked_is_listed_and_not_green(audited: tuple[Path, str]) -> None:
    run, printed_text = audited
    unmet = [f for f in findings(run) if not f["measured"]]
    assert {f["verdict"] for f in unmet} == {"INCONCLUSIVE"}
    assert any(f["attack"] == "untaken_place" and f["adversary"] == "wire" for f in unmet)
    assert any(f["attack"] == "similar_links" for f in unmet)
    assert "Not known" in printed_text
    assert "do not apply (--all)" in printed_text


def test_an_attack_from_outside_the_packages_runs(audited: tuple[Path, str]) -> None:
    own = [f for f in findings(audited[0]) if f["attack"] == "margin"]
    assert [f["verdict"] for f in own] == ["LEAK"]


def test_question_from_outside_with_its_game_is_measured(audited: tuple[Path, str]) -> None:
    (own,) = [f for f in findings(audited[0]) if f["attack"] == "hubs"]
    assert own["metric"] == "AUC over nodes with many links and others"
    assert own["measured"] is True
    assert own["targets"] > 100


def test_an_attack_that_raises_is_a_finding_and_the_others_go_on(
    audited: tuple[Path, str],
) -> None:
    run, _ = audited
    here = run.parents[1]
    text = (here / "margin.py").read_text()
    broken = text.replace("return own - logits.max(1)", "return own[:-1] / 0").replace(
        'name="margin"', 'name="broken"'
    )
    (here / "broken.py").write_text(broken)
    told = text.replace('name="margin"', 'name="unsure"').replace(
        "    run=run,", "    run=run,\n    applies_to=lambda view: 1 / 0,"
    )
    (here / "unsure.py").write_text(told)
    done = securefg(
        "audit",
        str(run),
        "--trust-modules",
        "--only",
        "membership_loss",
        "--attack",
        "broken",
        "--attack",
        "unsure",
        cwd=here,
    )
    assert done.returncode == 3, done.stderr + done.stdout
    after = {(f["attack"], f["verdict"]) for f in findings(run)}
    assert {("broken", "INCONCLUSIVE"), ("unsure", "INCONCLUSIVE")} <= after
    assert ("membership_loss", "LEAK") in after
    assert ("membership_rmia", "LEAK") in after  # what was stored stays


@pytest.mark.usefixtures("geometric")
def test_entry_points_of_an_installed_package_are_found_by_name(tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "sage-1.0.dist-info").mkdir(parents=True)
    (package / "sage-1.0.dist-info" / "METADATA").write_text("Name: sage\nVersion: 1.0\n")
    (package / "sage-1.0.dist-info" / "entry_points.txt").write_text(
        "[securefg.methods]\nsage = fedsage\n[securefg.attacks]\nmy_margin = margin\n"
    )
    copy("own_method", package)
    copy("own_attack", package)
    for kind, name in (("methods", "sage"), ("attacks", "my_margin")):
        listed = securefg("list", kind, cwd=tmp_path, path=package)
        assert listed.returncode == 0, listed.stderr
        assert name in listed.stdout
    (tmp_path / "config.yaml").write_text(
        (package / "fedsage.yaml").read_text().replace("name: fedsage", "name: sage")
    )
    shown = securefg("config", "show", "config.yaml", cwd=tmp_path, path=package)
    assert shown.returncode == 0, shown.stderr
    assert "hidden: 16" in shown.stdout


@pytest.mark.usefixtures("geometric")
def test_a_network_from_a_users_file_trains_under_masks_in_processes(tmp_path: Path) -> None:
    copy("own_network", tmp_path)
    ran = securefg("run", "residual.yaml", "--json", *SMALL, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["engine"] == "processes"
    assert "Update.weights" in summary["masked"]
    assert summary["test_accuracy"] > 0.5


def test_a_misspelt_method_is_answered_with_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("method: {name: fedavgg}\n")
    done = securefg("run", "bad.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean fedavg?" in done.stderr


def test_own_dataset_and_partition_run_and_need_trust_to_be_audited(tmp_path: Path) -> None:
    copy("own_data", tmp_path)
    ran = securefg("run", "two_rings.yaml", "--quiet", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["dataset"], summary["test_accuracy"] > 0.5) == ("two_rings", True)
    refused = securefg("audit", str(run), "--only", "promises", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--trust-modules imports it" in refused.stderr
    trusted = securefg("audit", str(run), "--only", "promises", "--trust-modules", cwd=tmp_path)
    assert trusted.returncode == 0, trusted.stderr


def test_own_defence_runs_is_audited_and_drawn_as_a_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "laplace", raising=False)  # another test may have loaded it
    copy("own_defence", tmp_path)
    ran = securefg("run", "laplace.yaml", "--quiet", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    refused = securefg("audit", str(run), "--only", "promises", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--trust-modules imports it" in refused.stderr
    wanted = ("--only", "promises", "--trials", "1000")
    done = securefg("audit", str(run), "--trust-modules", *wanted, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    recorded = [f for f in findings(run) if f["attack"] == "recorded_noise"]
    assert [f["verdict"] for f in recorded] == ["NOT_DETECTED"]
    drawn = securefg("curve", "curve.yaml", cwd=tmp_path)
    assert drawn.returncode in (0, 1), drawn.stderr + drawn.stdout
    page = tmp_path / "curves" / "curve"
    points = json.loads((page / "data.json").read_text())["points"]
    noisy = [p for p in points if p["defence"] == "laplace"]
    assert [(p["epsilon"], p["failed"]) for p in noisy] == [(8.0, ""), (64.0, "")]
    assert "every client adds Laplace noise to its own upload" in (page / "curve.html").read_text()


def test_own_defence_of_an_installed_package_is_listed(tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "noise-1.0.dist-info").mkdir(parents=True)
    (package / "noise-1.0.dist-info" / "METADATA").write_text("Name: noise\nVersion: 1.0\n")
    (package / "noise-1.0.dist-info" / "entry_points.txt").write_text(
        "[securefg.defences]\nmy_noise = laplace\n"
    )
    copy("own_defence", package)
    listed = securefg("list", "defences", cwd=tmp_path, path=package)
    assert listed.returncode == 0, listed.stderr
    assert "my_noise" in listed.stdout
    assert "cannot be loaded" not in listed.stdout
