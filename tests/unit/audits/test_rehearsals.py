"""Servers that lie, against real clients of throw-away federations: plain, masked and noised."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from attacks import get_active, get_attack, load_active_attacks
from attacks.active.base import Request, Told
from audits.control_runs import strip_noise, undefended_config
from audits.findings.record import Finding, Verdict
from audits.rehearsals.rehearse import Rehearsal, floor_of, rehearse_attacks
from audits.rehearsals.throwaway import federate_rounds, new_truth, throwaway_config
from securefg.cli.main import app
from securefg.foundation.errors import ConfigError
from securefg.protocol.meanings import Weights
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig
from tests.small import config

MASKED = "privacy={secure_aggregation: {}}"
FIVE = "partition.shares=[0.5, 0.6, 0.7, 0.5, 0.6]"
LABELS = "data.csbm.num_nodes=200"
USERS = ("method={name: nfedgnn, average: true, smoothness: 0}", "partition={name: one_node}")
NOISE = "mechanism: local_gaussian, target_epsilon: 8, unit: client"


def played(root: Path, attack: str, *overrides: str) -> Finding:
    (finding,) = rehearse_attacks(config(root / "runs", *overrides), [attack]).findings
    return finding


def test_pseudo_labels_for_single_nodes_show_which_are_labelled(tmp_path: Path) -> None:
    finding = played(tmp_path, "probed_labels", FIVE, LABELS)
    assert finding.verdict is Verdict.LEAK
    assert finding.value is not None
    assert finding.value.value == 1.0
    assert finding.null_at_chance
    assert finding.details["lies"] == finding.targets + 1


def test_clients_under_masks_answer_no_small_cohort(tmp_path: Path) -> None:
    finding = played(tmp_path, "probed_labels", FIVE, LABELS, MASKED)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.gain is None
    assert finding.details["refused"] == 1
    assert "a cohort of 3, under 4" in finding.because


def test_pseudo_labels_that_the_settings_leave_out_are_refused(tmp_path: Path) -> None:
    off = "method={name: fedgl, pseudo_labels: false}"
    finding = played(tmp_path, "probed_labels", FIVE, LABELS, off)
    assert "method.pseudo_labels: false" in finding.because
    assert finding.gain is None


def test_two_like_rounds_of_which_one_is_without_a_client_undo_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a plan without the rule that bare sums of rows are opened over all clients alone."""
    monkeypatch.setattr("securefg.privacy.policy._whole_sums", lambda *of: {})
    finding = played(tmp_path, "silenced_client", FIVE, MASKED)
    assert finding.verdict is Verdict.LEAK
    assert finding.value is not None
    assert finding.value.value > 0.9
    assert finding.details["gain_without_lie"] < 0.05


def test_silenced_client_under_masks_leaves_no_sum_of_rows(tmp_path: Path) -> None:
    finding = played(tmp_path, "silenced_client", FIVE, MASKED)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.gain is None


def test_a_cohort_that_must_be_whole_is_not_summed_without_a_client(tmp_path: Path) -> None:
    whole = "privacy={secure_aggregation: {dropout: 0}}"
    finding = played(tmp_path, "silenced_client", FIVE, whole)
    assert finding.gain is None
    assert "a cohort of 4, under 5" in finding.because


def test_weights_that_are_a_code_read_records_entry_by_entry(tmp_path: Path) -> None:
    finding = played(tmp_path, "chosen_projections", *USERS)
    assert finding.verdict is Verdict.LEAK
    assert finding.details["exact_rows"] == 1.0
    assert finding.details["gain_without_lie"] < 0.05


def test_noise_hides_what_the_code_would_read(tmp_path: Path) -> None:
    finding = played(tmp_path, "chosen_projections", *USERS, f"privacy={{{NOISE}}}")
    assert finding.verdict is Verdict.NOT_DETECTED
    assert finding.positive is not None
    assert finding.positive.low > 0.5


def test_a_budget_that_clients_hold_ends_repeated_requests(tmp_path: Path) -> None:
    finding = played(tmp_path, "repeated_requests", *USERS, f"privacy={{{NOISE}, budget: 8}}")
    assert "past privacy.budget = 8" in finding.because
    # What one answer at epsilon 8 tells is left, which on some draws of the noise is a trace.
    assert finding.gain is not None
    assert finding.positive is not None
    assert finding.gain.high < finding.positive.low / 2


def test_powers_of_two_read_rows_of_0_and_1_with_fewer_numbers_than_words() -> None:
    from attacks.active.weights import _decode_row

    rng = np.random.default_rng(0)
    for scaled in (False, True):
        row = (rng.random(60) < 0.2).astype(np.float64)
        row = row / row.sum() if scaled else row
        code = np.zeros((60, 4))
        code[np.arange(60), np.arange(60) // 15] = 2.0 ** (np.arange(60) % 15)
        sent = (row.astype(np.float32) @ code.astype(np.float32)).astype(np.float64)
        assert np.allclose(_decode_row(sent, 15), row)


@pytest.mark.slow
def test_fished_classes_are_found_exactly(tmp_path: Path) -> None:
    finding = played(
        tmp_path,
        "fished_classes",
        "method={name: fedavg, network: GraphSAGE, arguments: {dropout: 0.0}}",
        "partition={name: louvain, num_clients: 20}",
        "data.csbm.num_nodes=400",
    )
    assert finding.verdict is Verdict.LEAK
    assert finding.value is not None
    assert finding.value.value > 0.99


@pytest.mark.slow
def test_trap_weights_find_more_than_honest_ones(tmp_path: Path) -> None:
    finding = played(
        tmp_path,
        "trap_weights",
        "method={name: fedavg, network: GraphSAGE, arguments: {dropout: 0.0}, optimizer: sgd}",
        "partition={name: louvain, num_clients: 12}",
        "data.csbm={task: dnc, num_nodes: 400, degree: 8, graph_signal: 2, mu: 6, "
        "num_features: 60}",
        "training.rounds=16",
        "training.lr=0.01",
    )
    assert finding.verdict is Verdict.LEAK
    assert finding.gain is not None
    assert finding.gain.value > finding.details["gain_without_lie"] + 0.1


def test_the_positive_control_has_no_noise_in_training_either(tmp_path: Path) -> None:
    chosen = config(
        tmp_path,
        "method={name: fedmlp}",
        "data.csbm={task: sc, num_nodes: 20, num_features: 6}",
        "partition={name: one_node}",
        "training.dp_sgd={clip_l2: 1.0, noise_multiplier: 1.0, sampling: 0.5, num_samples: 20}",
        "training.weight_decay=0",
    )
    control = undefended_config(chosen, 2, tmp_path)
    assert chosen.training.dp_sgd is not None
    assert control.training.dp_sgd is None
    assert strip_noise(chosen).training.dp_sgd is None
    assert strip_noise(chosen).training.rounds == chosen.training.rounds


# ------------------------------------------------------------------------------- the stage itself


def silent(request: Request) -> list[Told]:
    return []


def test_without_a_lie_the_federation_comes_to_the_weights_of_a_run(tmp_path: Path) -> None:
    chosen = config(tmp_path / "runs", "training.rounds=2", "training.final_model=last")
    outcome = runner.start(chosen)
    experiment = prepare(throwaway_config(chosen))
    rehearsed = federate_rounds(
        experiment, new_truth(experiment, tmp_path / "own").folder, 2, silent
    )
    files = [
        folder.path / "model.safetensors" for folder in (outcome.folder, rehearsed.truth.folder)
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert (rehearsed.lies, rehearsed.refused) == (0, ())


def test_what_was_told_is_what_is_on_record(tmp_path: Path) -> None:
    experiment = prepare(throwaway_config(config(tmp_path / "runs")))

    def lie(request: Request) -> list[Told]:
        name = request.field_with_meaning(Weights())
        assert name is not None
        sent = request.values[name]
        assert isinstance(sent, torch.Tensor)
        return [Told({name: torch.full_like(sent, 0.25)})]

    folder = new_truth(experiment, tmp_path / "own").folder
    rehearsed = federate_rounds(experiment, folder, 1, lie)
    sent = [r.fields() for r in read_transcript(folder.transcript) if not r.up]
    assert all(bool((fields["weights"] == 0.25).all()) for fields in sent)
    assert rehearsed.lies == 1


def test_a_rehearsal_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    rehearse_attacks(config(tmp_path / "runs", *USERS), ["chosen_projections"])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "scratch"]


def test_an_attack_that_breaks_is_a_finding_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[Told]:
        raise RuntimeError("out of luck")

    attack = get_active("chosen_projections")
    monkeypatch.setattr("audits.rehearsals.rehearse.get_active", lambda name: attack)
    monkeypatch.setitem(attack.__dict__, "lie", broken)
    found: Rehearsal = rehearse_attacks(config(tmp_path, *USERS), ["chosen_projections"])
    assert [name for name, _ in found.failed] == ["chosen_projections"]
    assert found.findings[0].failed


def test_audits_of_recorded_runs_refuse_active_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "trap_weights" in load_active_attacks()
    outside = ModuleType("outside.lies")
    outside.ATTACK = get_active("trap_weights")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "outside.lies", outside)
    for name in ("trap_weights", "outside.lies"):
        with pytest.raises(ConfigError, match="securefg rehearse"):
            get_attack(name)


def test_the_command_prints_findings_and_says_what_a_floor_has_against_it(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(_dumped(config(tmp_path / "runs", *USERS))))
    asked = ["rehearse", str(path), "--only", "chosen_projections"]
    found = CliRunner().invoke(app, [*asked, "--json"])
    assert found.exit_code == 0
    assert [f["attack"] for f in json.loads(found.stdout)] == ["chosen_projections"]
    shown = CliRunner().invoke(app, [*asked, "--fail-on", "LEAK"])
    assert shown.exit_code == 1
    assert "would take no part" in shown.stdout
    assert "powers of two" in shown.stdout


def _dumped(chosen: RunConfig) -> dict[str, object]:
    return chosen.model_dump(mode="json")


def test_a_run_is_not_rehearsed(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["rehearse", str(tmp_path)])
    assert isinstance(refused.exception, ConfigError)
    assert "securefg audit" in str(refused.exception)


def test_floor_of_a_config_without_defences_names_noise(tmp_path: Path) -> None:
    reasons = floor_of(prepare(config(tmp_path)))
    assert "noise" in reasons, reasons
