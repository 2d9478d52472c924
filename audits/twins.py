"""`securefg audit RUN --try masks`: a short run with a remedy, attacked as the run itself was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from audits.answer.build import TRIED, answer_of
from audits.answer.model import Answer, Remedy
from audits.answer.remedies import twin_config
from audits.plan import Plan
from audits.run import Audit, Told, audit
from securefg.foundation.errors import ConfigError
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.sweep.cache import find_run


def try_remedy(
    run: Path, key: str, plan: Plan, report_progress: Told = lambda what, done, total: None
) -> Audit:
    """Run a twin of the run with the remedy, and mount every attack that leaked in its cells."""
    answer = answer_of(run)
    remedy = find_remedy(answer, key)
    root = run / TRIED / remedy.key
    config = twin_config(RunFolder.open(run).config(), remedy.key, answer.run, root)
    report_progress(f"a twin with {remedy.key}: {config.training.rounds} rounds", 0, 1)
    twin = find_run(config.output.root, config.hash)
    if twin is None:
        twin = runner.start(config, fresh=True).folder
    asked = replace(plan, only=leaking_attacks(answer, remedy), more=())
    return audit(twin.path, asked, report_progress, controls=run / "audit" / "control")


def find_remedy(answer: Answer, key: str) -> Remedy:
    """Return the remedy of that key. Raise ConfigError if the run has no leak that it would
    stop."""
    keys = [remedy.key for remedy in answer.remedies if remedy.key]
    found = [remedy for remedy in answer.remedies if key and remedy.key == key.lower()]
    if not found:
        raise ConfigError(f"--try: found {key!r}; expected {' or '.join(keys) or 'no remedy'}")
    return found[0]


def leaking_attacks(answer: Answer, remedy: Remedy) -> tuple[str, ...]:
    """Return the attacks that leak in the cells of a remedy, by name."""
    cells = [cell for cell in answer.cells if cell.code in remedy.codes]
    return tuple(
        sorted({one.attack for cell in cells for one in cell.evidence if one.level.is_leak})
    )
