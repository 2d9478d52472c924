"""The settings as they were resolved, what the run ran on, and how to run it again."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from securefg.reports.results import Results
from securefg.reports.units import number, seconds_text


@dataclass(frozen=True)
class SetupSection:
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    settings: str
    command: str
    same: str


def setup_section(results: Results) -> SetupSection:
    summary, config = results.summary, results.config
    facts = (
        ("Seed", number(summary.seed)),
        ("Hash of the settings", summary.config_hash),
        ("Device", summary.device),
        ("Engine", summary.engine),
        ("Time", seconds_text(summary.seconds)),
        ("Attempts", number(summary.attempts)),
    )
    return SetupSection(
        facts=facts,
        versions=tuple(summary.versions.items()),
        settings=yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False),
        command=f"securefg run {config.name}.yaml",
        same=_same(results),
    )


def _same(results: Results) -> str:
    noised = any(booked.mechanism.noise_multiplier for booked in results.booked)
    if noised and results.config.privacy.noise_rng == "system":
        return (
            "The noise came from the system and cannot be drawn again: "
            "a repeat follows the same law, not the same bits."
        )
    return "On the same machine and versions a repeat gives the same result to the bit."
