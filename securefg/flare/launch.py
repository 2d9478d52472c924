"""Starting and resuming a run on whichever engine its config names, FLARE's federation included."""

from __future__ import annotations

from securefg.flare.admin import require_flare
from securefg.runs import runner
from securefg.runs.execution import Outcome
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Observer
from securefg.runs.runner import Execute
from securefg.settings.config import RunConfig


def start(config: RunConfig, observer: Observer | None = None, fresh: bool = False) -> Outcome:
    """Run a config from its first round."""
    return runner.start(config, observer, fresh, _choose_execute(config))


def resume(folder: RunFolder, observer: Observer | None = None) -> Outcome:
    """Go on with a run after its last whole checkpoint."""
    return runner.resume(folder, observer, _choose_execute(folder.config()))


def _choose_execute(config: RunConfig) -> Execute | None:
    if config.engine.name != "flare":
        return None
    require_flare()
    from securefg.flare.local import run_locally

    return run_locally
