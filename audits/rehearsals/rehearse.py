"""`securefg rehearse`: every active attack, or some, on federations that are deleted afterwards."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from attacks import active, get_active
from audits.rehearsals.stage import Stage
from securefg.run.assembly import Experiment
from securefg.run.findings import Finding
from securefg.settings.config import RunConfig
from securefg.site.policy import JobRefused, SitePolicy


@dataclass(frozen=True)
class Rehearsal:
    """What was found, and what failed: (attack, reason).

    floor  why a site with the default floor takes no part in this config; empty where it does
    """

    findings: list[Finding] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    floor: str = ""


def rehearse(
    config: RunConfig,
    only: Sequence[str] = (),
    seed: int = 0,
    told: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Rehearsal:
    """Active attacks on this config's clients, all in a folder of their own."""
    torch.set_num_threads(1)
    attacks = [get_active(name) for name in (only or active())]
    with tempfile.TemporaryDirectory(prefix="securefg-rehearsal-") as folder:
        stage = Stage(config, Path(folder), seed)
        found = Rehearsal(floor=floor_of(stage.experiment))
        for number, attack in enumerate(attacks):
            told(attack.name, number, len(attacks))
            try:
                found.findings.append(stage.play(attack))
            except Exception as error:
                said = _in_words(error)
                found.failed.append((attack.name, said))
                found.findings.append(stage.unplayed(attack, f"it failed: {said}", failed=True))
    return found


def floor_of(experiment: Experiment) -> str:
    """What a site with the default floor, open to all methods, has against the config."""
    x = experiment
    planned = x.method.releases(x.config.method, x.config.training, x.public)
    try:
        SitePolicy(methods="any").check(x.config, x.policy, planned)
    except JobRefused as refusal:
        return str(refusal)
    return ""


def _in_words(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
