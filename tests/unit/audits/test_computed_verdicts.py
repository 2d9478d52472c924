"""Verdicts of whole audits: computed where the noise was checked, measured where it was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from attacks import get_attack
from attacks.questions import Question, SummedFeatures
from audits.claim_bound import are_promises_kept, bound_of_claims
from audits.closed_form import bound_of_claim, gain_of_distance
from audits.findings.file import FindingsFile
from audits.findings.record import Finding, Verdict
from audits.findings.stored import read_findings
from audits.games import has_closed_form, make_game
from audits.games.base import BinaryGame
from audits.noise_of_sums import noise_of_sum
from audits.plan import PROMISES, Plan
from audits.run import audit
from audits.truth import Truth
from securefg.cli.main import app
from securefg.foundation.errors import RunFolderError
from securefg.foundation.interval import Interval
from securefg.foundation.streams import numpy_stream
from securefg.privacy.defences import distributed_discrete
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary
from securefg.runs.folder import RunFolder
from securefg.runs.runner import start
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

SUMS = ("summed_features", "summed_moments", "summed_both", "summed_links", "summed_labels")
SERVER = Adversary.parse("server")


def made(root: Path, epsilon: float = 1.0) -> Path:
    privacy = {**PRIVATE, "noise_rng": "system", "target_epsilon": epsilon}
    return start(parse_config(tree(root, privacy=privacy))).folder.path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("computed"))


@pytest.fixture(scope="module")
def findings_by_cell(run: Path) -> dict[tuple[str, str], Finding]:
    plan = Plan(only=(*SUMS, "released_others", PROMISES), trials=2000)
    return {(f.attack, f.adversary): f for f in audit(run, plan).findings}


def test_audit_of_checked_noise_computes_or_bounds_gains(
    findings_by_cell: dict[tuple[str, str], Finding],
) -> None:
    bases = {key: f.basis for key, f in findings_by_cell.items() if has_game_with_form(key[0])}
    assert {bases[name, "server"] for name in SUMS} == {"computed"}
    assert {bases["released_others", "outsider"], bases["summed_links", "outsider"]} == {"bounded"}
    for key in bases:
        finding = findings_by_cell[key]
        assert finding.verdict in (Verdict.TRACE, Verdict.LEAK)
        assert finding.gain is not None
        assert finding.gain.low <= finding.gain.value <= finding.gain.high
        assert finding.gain.value <= finding.details["most_exposed"]
        assert "measured_gain" in finding.details


def has_game_with_form(attack: str) -> bool:
    return attack in (*SUMS, "released_others") and has_closed_form(get_attack(attack).question)


def test_audit_computed_gains_stay_within_the_claim(
    run: Path, findings_by_cell: dict[tuple[str, str], Finding]
) -> None:
    """Membership of a label is at most a node's removal and its return."""
    claim = RunFolder.open(run).summary().epsilon["node"]
    assert claim.epsilon is not None
    largest = max(line.epsilon or 0.0 for line in claim.by_links)
    bound = bound_of_claim(max(claim.epsilon, largest), claim.delta, 2, discrete=True)
    for name in ("summed_features", "summed_moments", "summed_both"):
        assert findings_by_cell[name, "server"].details["most_exposed"] <= bound


def test_closed_form_of_a_run_agrees_with_noise_drawn_anew(run: Path) -> None:
    """The game's own moves, under fresh draws of the noise that the view declares."""
    truth = Truth.of(RunFolder.open(run))
    view, rng = truth.view(SERVER), numpy_stream(0, "targets")
    game = make_game(SummedFeatures, truth, SERVER, rng)
    noise = noise_of_sum(truth, Statistic(form="by_class"), SERVER, view)
    assert noise is not None
    assert noise.count == truth.experiment.partition.num_clients
    assert game.closed is not None
    form = game.closed(view)
    assert form is not None
    assert game.question.moves is not None
    moves = game.question.moves.reshape(len(game.question.ids), -1)[:40]
    draws = noise.sd * rng.standard_normal((4000, moves.shape[1]))
    alone = draws @ moves.T
    together = alone + (moves**2).sum(1)
    pairs = zip(together[:800].T, alone[800:1600].T, strict=True)
    ranks = [(np.subtract.outer(inside, outside) > 0).mean() for inside, outside in pairs]
    exact = gain_of_distance(noise.move_distances(moves)[0])
    assert float(np.mean(ranks)) - 0.5 == pytest.approx(float(exact.mean()), abs=0.01)
    assert form.gain.low <= float(exact.mean()) + 0.05


def test_audit_of_half_the_noise_computes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = distributed_discrete.sample

    def halved(sigma: float, *rest: Any) -> Any:
        return sound(sigma / 4, *rest)

    monkeypatch.setattr(distributed_discrete, "sample", halved)
    path = made(tmp_path)
    monkeypatch.setattr(distributed_discrete, "sample", sound)
    findings = audit(path, Plan(only=("summed_features", PROMISES), trials=2000)).findings
    assert Verdict.VIOLATION in {f.verdict for f in findings}
    assert {f.basis for f in findings} == {"measured"}


def test_audit_without_checks_of_promises_measures(tmp_path: Path) -> None:
    findings = audit(made(tmp_path), Plan(only=("summed_features",))).findings
    assert {f.basis for f in findings} == {"measured"}


CHECKS = ("mechanisms", "recorded", "books", "influence")


def kept(**changes: Any) -> list[Finding]:
    bare = Finding(
        adversary="server",
        attack="a",
        method="m",
        metric="-",
        unit="node",
        verdict=Verdict.NOT_DETECTED,
        because="",
    )
    found = [bare.model_copy(update={"check": name}) for name in CHECKS]
    return [found[0].model_copy(update=changes), *found[1:], found[0]]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"verdict": Verdict.VIOLATION}, False),
        ({"failed": True}, False),
        ({"verdict": Verdict.INCONCLUSIVE}, False),
        ({"verdict": Verdict.INCONCLUSIVE, "unit": "release"}, False),
        ({"verdict": Verdict.INCONCLUSIVE, "unit": "client"}, True),
    ],
)
def test_promises_are_kept_only_if_no_check_is_open(changes: dict, wanted: bool) -> None:
    assert are_promises_kept(kept(**changes), "node") is wanted


@pytest.mark.parametrize("gone", CHECKS)
def test_promises_that_were_not_checked_are_not_kept(gone: str) -> None:
    assert not are_promises_kept([f for f in kept() if f.check != gone], "node")


def test_bound_of_claims_speaks_of_uploads_and_aucs_alone(run: Path) -> None:
    truth, targets = Truth.of(RunFolder.open(run)), Question(ids=np.arange(4))

    def bound(attack: str, unit: str) -> float | None:
        game = BinaryGame(targets, "AUC", unit, np.arange(4) % 2)
        return bound_of_claims(truth, get_attack(attack), game)

    edge, node, label = (bound("summed_links", u) for u in ("edge", "node", "label of a node"))
    assert edge is not None
    assert node is not None
    assert label is not None
    assert 0 < edge < node < label < 0.5
    assert bound("summed_links", "client") is None
    assert bound("membership_loss", "label of a node") is None


def test_audit_trace_does_not_fail_on_leak(run: Path) -> None:
    """A trace is shown, and is no leak to a build."""
    figure = Interval(value=0.01, low=0.005, high=0.015)
    trace = Finding(
        adversary="server",
        attack="some_attack",
        method="m",
        metric="AUC",
        unit="node",
        verdict=Verdict.TRACE,
        because="a trace",
        value=figure,
        prior=figure,
        gain=figure,
    )
    about = {"record": RunFolder.open(run).summary().transcript_chain}
    file = FindingsFile.begin(run / "audit", about, anew=True)
    file.add([trace])
    file.close({})
    asked = ["audit", str(run), "--only", "vocabulary", "--fail-on", "LEAK"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "trace" in result.output


def test_findings_of_an_older_format_are_refused_by_number(run: Path) -> None:
    path = run / "audit" / "findings.json"
    text = path.read_text()
    path.write_text(text.replace('"schema": 4', '"schema": 3'))
    try:
        with pytest.raises(RunFolderError, match="schema 3; wanted 4"):
            read_findings(path)
    finally:
        path.write_text(text)
