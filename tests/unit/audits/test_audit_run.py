"""An audit goes on where one attack breaks, adds to what is stored, and says what it left out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from attacks import get_attack
from audits.findings.record import NOT_ASKED, Finding, Verdict
from audits.findings.stored import read_findings
from audits.plan import Plan
from audits.run import audit
from securefg.cli.common import PART_FAILED
from securefg.cli.main import app
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import numpy_stream
from securefg.protocol.exchange import (
    Claim,
    Exchange,
    ExchangeWriter,
    FirstLayer,
    Layer,
    Upload,
)
from securefg.settings.execution import AuditSettings
from tests.unit.runs.written_over import write_over

OWN = """
import numpy as np
from attacks.base import Attack
from attacks.questions import TrainedSamples
from securefg.protocol.meanings import {need}

def run(view, question, rng):
    {body}

ATTACK = Attack(
    name="{name}", summary="", source="", needs=({need}(),), assumes="nothing",
    adversaries=frozenset({{"server"}}), question=TrainedSamples, floor=0.1, expected="", run=run,
)
"""
BREAKS = "raise RuntimeError('out of luck')"
GUESSES = "return np.zeros((len(question.ids), question.num_samples, 3))"


def written(path: Path, rounds: int = 1, **more: Any) -> Path:
    """Six clients that upload an error times a sample, plain."""
    layers = (Layer(name="W", shape=(2, 3)), Layer(name="b", shape=(2,)))
    described = Exchange(
        name="small",
        clients=6,
        upload=Upload(kind="f.Update", field="change"),
        layers=layers,
        first_layer=FirstLayer(weight="W", bias="b"),
        **more,
    )
    writer, rng = ExchangeWriter(path, described), np.random.default_rng(0)
    samples = {client: rng.normal(size=(1, 3)) for client in range(6)}
    for round in range(1, rounds + 1):
        for client, rows in samples.items():
            error = rng.normal(size=2)
            change = np.concatenate([np.outer(error, rows[0]).ravel(), error])
            writer.received(round, "f.Update", {"change": change}, client)
    writer.truth(samples)
    writer.close()
    return path


@pytest.fixture
def exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder is beside it."""
    written(tmp_path / "x")
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path / "x"
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def own(name: str, body: str, need: str = "Weights") -> str:
    Path(f"{name}.py").write_text(OWN.format(name=name, body=body, need=need))
    return name


def by_attack(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.attack: finding for finding in findings}


def stored(path: Path) -> dict[str, Finding]:
    return by_attack(read_findings(path / "audit" / "findings.json"))


def told(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["audit", *arguments])


def test_an_attack_that_breaks_is_a_finding_and_the_others_go_on(exchange: Path) -> None:
    breaks, guesses = own("own_breaking", BREAKS), own("own_guessing", GUESSES)
    result = audit(exchange, Plan(more=(breaks, guesses)))
    findings_by_attack = by_attack(result.findings)
    broken = findings_by_attack["own_breaking"]
    assert broken.verdict is Verdict.INCONCLUSIVE
    assert broken.failed
    assert "RuntimeError: out of luck (own_breaking.py:" in broken.because
    assert [name for name, _ in result.failed] == ["own_breaking"]
    assert findings_by_attack["first_layer_samples"].verdict is Verdict.LEAK
    assert findings_by_attack["own_guessing"].gain is not None
    assert not findings_by_attack["own_guessing"].failed
    assert stored(exchange).keys() == findings_by_attack.keys()


def test_an_installed_attack_that_cannot_be_loaded_is_a_finding(
    exchange: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attacks.installed", lambda group: {"lost": "no_such_package.attack"})
    result = audit(exchange, Plan(trials=1000))
    assert [name for name, _ in result.failed] == ["lost"]
    assert by_attack(result.findings)["lost"].verdict is Verdict.INCONCLUSIVE
    with pytest.raises(ConfigError, match="lost"):
        Plan(only=("lost",))


def test_the_command_exits_3_where_part_of_it_failed(exchange: Path) -> None:
    breaks = own("own_failing", BREAKS)
    result = told(str(exchange), "--attack", breaks)
    assert result.exit_code == PART_FAILED == 3
    assert "own failing" in result.output
    assert told(str(exchange), "--attack", breaks, "--fail-on", "LEAK").exit_code == 1
    assert told(str(exchange), "--only", "input_support", "--quiet").exit_code == 0


def test_some_attacks_add_to_what_is_stored(exchange: Path) -> None:
    added = own("own_added", GUESSES)
    audit(exchange, Plan(more=(added,)))
    path = exchange / "audit" / "findings.json"
    tree = json.loads(path.read_text())
    for entry in tree["findings"]:
        entry["made"] = "2001-01-01"
    write_over(path, tree)
    before = stored(exchange)
    audit(exchange, Plan(only=(added,)))
    after = stored(exchange)
    assert after.keys() == before.keys()
    assert after["own_added"].made > "2001-01-01"
    kept = {name for name, one in after.items() if one.made == "2001-01-01"}
    assert kept == set(after) - {"own_added", "untaken_place", "unread_field"}
    with np.load(exchange / "audit" / "scores.npz", allow_pickle=False) as scores:
        assert {name.partition("/")[0] for name in scores} == {
            "first_layer_samples",
            "own_added",
        }


def test_what_no_attack_reads_is_said_until_one_does(exchange: Path) -> None:
    audit(exchange, Plan(only=("promises",)))
    assert stored(exchange)["unread_field"].metric == "f.Update.change"
    assert stored(exchange)["untaken_place"].verdict is Verdict.INCONCLUSIVE
    audit(exchange, Plan(only=("first_layer_samples",)))
    left = read_findings(exchange / "audit" / "findings.json")
    assert "unread_field" not in by_attack(left)
    assert {f.adversary for f in left if f.attack == "untaken_place"} == {
        "client",
        "outsider",
        "wire",
    }


def test_attacks_that_fit_and_were_left_out_are_named(exchange: Path) -> None:
    audit(exchange, Plan(only=("promises",)))
    left = stored(exchange)[NOT_ASKED]
    assert "first_layer_samples" in left.metric.split(", ")
    assert (left.verdict, left.measured) == (Verdict.INCONCLUSIVE, False)
    audit(exchange, Plan(only=("first_layer_samples",)))
    assert "first_layer_samples" not in stored(exchange)[NOT_ASKED].metric
    audit(exchange, Plan(trials=1000))
    assert NOT_ASKED not in stored(exchange)


def test_an_attack_that_broke_has_read_nothing(exchange: Path) -> None:
    audit(exchange, Plan(only=(own("own_reader", BREAKS),)))
    assert stored(exchange)["unread_field"].metric == "f.Update.change"


def test_an_attack_by_module_path_has_read_what_it_needs(exchange: Path) -> None:
    """Its name is not the path by which it was found."""
    Path("own_package").mkdir()
    source = OWN.format(name="own_inner", body=GUESSES, need="Weights")
    Path("own_package", "module.py").write_text(source)
    audit(exchange, Plan(only=("own_package.module",)))
    assert stored(exchange)["own_inner"].gain is not None
    assert "unread_field" not in stored(exchange)


def test_needs_that_are_not_met_are_said_by_meaning(exchange: Path) -> None:
    name = own("own_hoping", GUESSES, need="Predictions")
    found = by_attack(audit(exchange, Plan(only=(name,))).findings)["own_hoping"]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert not found.measured
    assert found.because == "not run: no upload or answer of this run holds predictions"


def test_an_attack_that_was_named_for_a_place_it_cannot_take_says_so(exchange: Path) -> None:
    plan = Plan(only=("first_layer_samples",), adversaries=("wire",))
    found = by_attack(audit(exchange, plan).findings)["first_layer_samples"]
    assert found.because == "not run: it is mounted by server"
    assert not found.measured


def test_silence_on_a_run_that_nothing_defends_is_not_known(exchange: Path) -> None:
    name = own("own_silent", GUESSES)
    found = by_attack(audit(exchange, Plan(only=(name,))).findings)["own_silent"]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.positive is None


@pytest.mark.parametrize("name", ["own_nothing_here", "json", "telepathy"])
def test_an_attack_that_is_none_is_refused_before_anything_runs(exchange: Path, name: str) -> None:
    for plan in ({"only": (name,)}, {"more": (name,)}):
        with pytest.raises(ConfigError, match=f"attack: .*{name}"):
            Plan(**plan)
    assert not (exchange / "audit").exists()
    assert get_attack("first_layer_samples").name == "first_layer_samples"


BREAKS_ON_TWELVE = """
    from attacks.samples import FIRST_LAYER_SAMPLES as known
    if len(view.seen) > 6:
        raise RuntimeError("not without its noise")
    return known.run(view, question, rng)
"""


def test_a_control_that_breaks_takes_back_no_leak(tmp_path: Path, exchange: Path) -> None:
    """The run alone shows a leak; that the attack breaks with the defence off changes nothing."""
    written(tmp_path / "control", rounds=2)
    claim = Claim(epsilon=1e6, delta=1e-5, clip_l2=1000.0, sigma=1e-6)
    written(tmp_path / "claiming", claim=claim, control="../control")
    name = own("own_leaky", BREAKS_ON_TWELVE)
    result = audit(tmp_path / "claiming", Plan(only=(name,)))
    found = by_attack(result.findings)["own_leaky"]
    assert found.verdict is Verdict.LEAK
    assert found.positive is None


def test_a_control_that_breaks_makes_no_silence_and_exits_3(tmp_path: Path, exchange: Path) -> None:
    written(tmp_path / "control", rounds=2)
    claim = Claim(epsilon=1.0, delta=1e-5, clip_l2=1.0, sigma=5.0)
    written(tmp_path / "claiming", claim=claim, control="../control")
    name = own("own_shy", BREAKS_ON_TWELVE.replace("return known.run", f"{GUESSES}  #"))
    result = audit(tmp_path / "claiming", Plan(only=(name,)))
    found = by_attack(result.findings)["own_shy"]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "RuntimeError: not without its noise" in found.because
    assert found.failed
    assert [attack for attack, _ in result.failed] == ["own_shy"]


def test_a_place_that_an_attack_cannot_take_wipes_none_that_it_took(exchange: Path) -> None:
    audit(exchange, Plan(only=("first_layer_samples",)))
    audit(exchange, Plan(only=("first_layer_samples",), adversaries=("wire",)))
    found = read_findings(exchange / "audit" / "findings.json")
    places = {f.adversary: f.verdict for f in found if f.attack == "first_layer_samples"}
    assert places == {"server": Verdict.LEAK, "wire": Verdict.INCONCLUSIVE}


HANGS = "import time\n    while True:\n        time.sleep(0.01)"


def test_an_attack_that_never_ends_is_ended_and_the_others_go_on(exchange: Path) -> None:
    name = own("own_endless", HANGS)
    limit = "audit.attack_seconds=0.5"
    result = told(str(exchange), "--attack", name, "--set", limit, "--jobs", "1")
    assert result.exit_code == PART_FAILED
    findings_by_attack = stored(exchange)
    assert findings_by_attack["own_endless"].verdict is Verdict.INCONCLUSIVE
    assert findings_by_attack["own_endless"].failed
    said = "it failed: it was ended after 0.5 seconds (audit.attack_seconds)"
    assert findings_by_attack["own_endless"].because == said
    assert findings_by_attack["first_layer_samples"].verdict is Verdict.LEAK


def test_a_control_that_never_ends_takes_back_no_leak(tmp_path: Path, exchange: Path) -> None:
    written(tmp_path / "control", rounds=2)
    claim = Claim(epsilon=1e6, delta=1e-5, clip_l2=1000.0, sigma=1e-6)
    written(tmp_path / "claiming", claim=claim, control="../control")
    endless = BREAKS_ON_TWELVE.replace('raise RuntimeError("not without its noise")', "while 1: 0")
    plan = Plan(only=(own("own_slow", endless),), overrides=("audit.attack_seconds=1",))
    found = by_attack(audit(tmp_path / "claiming", plan).findings)["own_slow"]
    assert found.verdict is Verdict.LEAK


@pytest.mark.parametrize("hangs", [lambda: time.sleep(20), lambda: exec("while 1: 0")])
def test_a_check_of_a_promise_that_never_ends_is_ended_too(
    exchange: Path, monkeypatch: pytest.MonkeyPatch, hangs: Callable[[], None]
) -> None:
    monkeypatch.setattr("audits.run.foreign_promises", lambda truth: hangs() or [])
    result = told(str(exchange), "--set", "audit.attack_seconds=2", "--jobs", "1")
    assert result.exit_code == PART_FAILED
    findings_by_attack = stored(exchange)
    assert findings_by_attack["promises"].verdict is Verdict.INCONCLUSIVE
    assert findings_by_attack["promises"].failed
    assert findings_by_attack["promises"].because.startswith(
        "it failed: it was ended after 2 seconds"
    )
    assert findings_by_attack["first_layer_samples"].verdict is Verdict.LEAK


LUCKY = """
    from attacks.samples import FIRST_LAYER_SAMPLES as known
    if rng.random() < {least}:
        return np.zeros((len(question.ids), question.num_samples, 3))
    return known.run(view, question, rng)
"""


def test_no_other_seed_takes_a_leak_back(exchange: Path) -> None:
    """The attack guesses well by some seeds only; asked by another, the leak stands, told so."""
    draws = [numpy_stream(s, "guess", "own_lucky", "server").random() for s in range(6)]
    good, bad = int(np.argmax(draws)), int(np.argmin(draws))
    name = own("own_lucky", LUCKY.format(least=(draws[good] + draws[bad]) / 2))
    audit(exchange, Plan(only=(name,), seed=good))
    assert stored(exchange)["own_lucky"].verdict is Verdict.LEAK
    audit(exchange, Plan(only=(name,), seed=bad))
    after = stored(exchange)["own_lucky"]
    assert after.verdict is Verdict.LEAK
    assert len(after.milder) == 1
    audit(exchange, Plan(seed=bad))
    assert stored(exchange)["own_lucky"].verdict is Verdict.LEAK


def test_terms_are_all_that_a_verdict_hangs_on_beside_the_run() -> None:
    assert Plan().audit_terms(AuditSettings()) == ""
    turned = AuditSettings(leak_threshold=0.4, sensitive=3, attack_seconds=None)
    said = "--seed 7 --trials 1000 --set audit.leak_threshold=0.4 --set audit.sensitive=3"
    assert Plan(seed=7, trials=1000).audit_terms(turned) == said
