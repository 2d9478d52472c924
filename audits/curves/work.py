"""What is done at a point of a curve: run, then audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from audits.curves.collect import is_audited
from audits.plan import Plan
from audits.run import audit
from securefg.run.observing import Observer
from securefg.settings.config import RunConfig
from securefg.sweep import Runs, find_run


@dataclass(frozen=True)
class RunAndAudit:
    """Configs are looked up by their hash; one without a plan (a reference level) is only run.

    controls  where runs with the defences off are kept, one for all strengths of a defence
    """

    plans: Mapping[str, Plan]
    controls: Path

    def finished(self, config: RunConfig) -> bool:
        folder = find_run(config.output.root, config.hash)
        if folder is None or not folder.finished:
            return False
        return config.hash not in self.plans or is_audited(folder, self.plans[config.hash])

    def execute(self, config: RunConfig, observer: Observer) -> bool:
        runs = Runs()
        if not runs.finished(config) and not runs.execute(config, observer):
            return False
        folder = find_run(config.output.root, config.hash)
        plan = self.plans.get(config.hash)
        if plan is not None and folder is not None:
            audit(folder.path, plan, controls=self.controls)
        return True
