"""`securefg audit mechanism MODULE`: what a defence claims, beside what games against it show."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import shortened
from securefg.foundation.suggestions import explain_unknown_name
from securefg.foundation.yaml_text import parse_yaml


def measure_mechanism(
    word: Path, target: str | None, trials: int, seed: int, overrides: list[str], as_json: bool
) -> None:
    """Exit 1 where more was shown than is claimed."""
    from audits.mechanisms.callables import Claim, found_callable, measure_release

    if str(word) != "mechanism" or target is None:
        raise ConfigError(
            f"audit: found {word} {target or ''}; expected `audit RUN`, or `audit mechanism MODULE`"
        )
    sys.path.insert(0, "")  # a module of one's own lies where one stands
    release, claim = found_callable(target)
    given: dict[str, Any] = {}
    known = {field.name for field in fields(Claim)}
    for override in overrides:
        key, _, value = override.partition("=")
        name = key.removeprefix("claim.")
        if name not in known or name == key:
            every = [f"claim.{name}" for name in sorted(known)]
            raise ConfigError(explain_unknown_name("--set", key, every))
        given[name] = parse_yaml(value, f"--set {shortened(override)}")
    if claim is None and not {"epsilon", "delta"} <= given.keys():
        raise ConfigError(
            f"audit mechanism {target}: found no CLAIM; expected one in the module, or "
            "--set claim.epsilon=... --set claim.delta=..."
        )
    claim = Claim(**given) if claim is None else replace(claim, **given)
    measured = measure_release(release, claim, trials, seed)
    if as_json:
        line = {
            "target": target,
            "claim": asdict(claim),
            "epsilon_lower": measured.counted.epsilon,
            "ceiling": measured.counted.ceiling,
            "epsilon_lower_without_assumptions": measured.bound.epsilon,
            "epsilon_lower_if_gaussian": measured.gaussian.epsilon,
            "game": measured.game,
            "verdict": measured.verdict,
            "trials": measured.bound.trials,
            "seconds": round(measured.seconds, 2),
        }
        sys.stdout.write(json.dumps(line, allow_nan=False) + "\n")
    else:
        rounds = "" if claim.rounds == 1 else f" over {claim.rounds} releases"
        Console().print(
            f"{measured.verdict}  {target}: claimed epsilon {claim.epsilon:g} at delta "
            f"{claim.delta:g} per {claim.unit} ({claim.relation}){rounds}; shown at least "
            f"{measured.counted.epsilon:.4g} of {measured.counted.ceiling:.4g} that could be "
            f"shown, {_assumed_law(claim.noise)}, at "
            f"99.9 % over {measured.bound.trials} trials "
            f"({measured.game}); {measured.seconds:.1f} s",
            soft_wrap=True,
            highlight=False,
        )
    if measured.verdict == "VIOLATION":
        raise typer.Exit(1)


def _assumed_law(noise: str) -> str:
    gaussian = "if its noise is Gaussian, as it says"
    return gaussian if noise == "gaussian" else "whatever its noise"
