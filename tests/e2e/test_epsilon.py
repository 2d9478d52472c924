"""The epsilon of a run is the accountant's, and one field left un-noised makes it infinite."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.foundation.errors import ConfigError
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from securefg.runs.summary import Summary
from tests.small import config

WEIGHTS_ALONE = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"


def summary(root: Path, *overrides: str) -> Summary:
    found = runner.start(config(root, *overrides)).summary
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("noise_multiplier", "rounds", "epsilon"), [(1, 1, 4.37718), (5, 100, 9.99726)]
)
def test_local_noise_costs_what_the_accountant_says(
    noise_multiplier: float, rounds: int, epsilon: float, tmp_path: Path
) -> None:
    run_summary = summary(
        tmp_path,
        WEIGHTS_ALONE,
        f"privacy={{mechanism: local_gaussian, noise_multiplier: {noise_multiplier}}}",
        f"training.rounds={rounds}",
        "training.local_epochs=1",
    )
    claim = run_summary.epsilon["client"]
    assert claim.epsilon == pytest.approx(epsilon, abs=1e-4)
    assert claim.private
    assert claim.because == ()


def test_one_field_without_noise_makes_epsilon_infinite_and_is_named(tmp_path: Path) -> None:
    run_summary = summary(
        tmp_path,
        "method={name: fedgl, weighting: equal}",
        "privacy={mechanism: local_gaussian, noise_multiplier: 1}",
        "privacy.field_rules={Update.embeddings: {mechanism: plain}}",
    )
    for unit in ("client", "row"):
        claim = run_summary.epsilon[unit]
        assert claim.epsilon is None
        assert not claim.private
        assert claim.because == ("Update.embeddings",)


def test_a_size_that_leaves_beside_the_noise_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="let clients count alike"):
        summary(tmp_path, "privacy={mechanism: local_gaussian, noise_multiplier: 1}")
    plain = summary(
        tmp_path,
        "privacy={mechanism: local_gaussian, noise_multiplier: 1}",
        "privacy.field_rules={Update.num_nodes: {mechanism: plain}}",
    )
    assert plain.epsilon["client"].because == ("Update.num_nodes",)


def test_a_target_is_met_when_all_planned_rounds_were_run(tmp_path: Path) -> None:
    run_summary = summary(
        tmp_path,
        "method={name: fedgl, weighting: equal}",
        "privacy={mechanism: local_gaussian, target_epsilon: 3, unit: row}",
    )
    assert run_summary.epsilon["row"].epsilon == pytest.approx(3, abs=1e-6)


def test_seeded_noise_is_never_called_private(tmp_path: Path) -> None:
    run_summary = summary(
        tmp_path,
        WEIGHTS_ALONE,
        "privacy={mechanism: local_gaussian, noise_multiplier: 1, noise_rng: seeded}",
    )
    assert run_summary.epsilon["client"].epsilon > 0
    assert not run_summary.epsilon["client"].private
    assert run_summary.epsilon["client"].because == ("seeded noise",)


def test_fresh_noise_of_repeated_rounds_stays_on_the_books(tmp_path: Path) -> None:
    """A crash after round 3 loses the rounds since the checkpoint; what they told was told."""

    class Crash(Silent):
        def round_done(self, report: RoundReport) -> None:
            if report.round == 3:
                raise KeyboardInterrupt

    overrides = (WEIGHTS_ALONE, "privacy={mechanism: local_gaussian, noise_multiplier: 2}")
    with pytest.raises(KeyboardInterrupt):
        runner.start(config(tmp_path, *overrides), Crash())
    (path,) = tmp_path.glob("run-*")
    resumed = runner.resume(RunFolder.open(path)).summary
    assert resumed is not None
    whole = summary(tmp_path / "whole", *overrides)
    assert resumed.rounds == whole.rounds == 4
    repeated, once = (found.epsilon["client"].epsilon for found in (resumed, whole))
    assert repeated > once  # five releases, round 3 twice
