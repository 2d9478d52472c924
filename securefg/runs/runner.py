"""Starting a run in a folder of its own, and going on with one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from securefg.foundation.errors import (
    ConfigError,
    InputError,
    RunFolderError,
)
from securefg.foundation.files import PRIVATE, write_json
from securefg.foundation.lock import owned
from securefg.runs.assembly import Experiment, enrol_clients, prepare, start_engine
from securefg.runs.checkpoint import (
    Checkpoint,
    last_checkpoint,
)
from securefg.runs.erasure_books import require_unbooked
from securefg.runs.execution import Outcome, Run
from securefg.runs.fingerprints import require_unchanged, write_fingerprints
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Observer, Silent
from securefg.settings.config import RunConfig

Execute = Callable[[Experiment, RunFolder, Observer], Outcome]
"""What carries a run out elsewhere: a federation's own server, while this process looks on."""


def start(
    config: RunConfig,
    observer: Observer | None = None,
    fresh: bool = False,
    elsewhere: Execute | None = None,
    beside: Callable[[Path], None] | None = None,
) -> Outcome:
    """Run a config from its first round. Nothing is written before all input was found good.

    beside  writes further files of the new folder, before anything is sent
    """
    _require_known_engine(config, elsewhere)
    if fresh:
        require_unbooked(RunFolder.path_of(config))
    experiment = prepare(config)

    def fill(path: Path) -> None:
        experiment.partition.save(path / "partition.safetensors")
        statistics = experiment.statistics.model_dump(mode="json")
        write_json(path / "partition.json", statistics, mode=PRIVATE)
        write_fingerprints(path, experiment)
        if beside is not None:
            beside(path)

    with ExitStack() as held:
        folder = RunFolder.create(config, fill, fresh, held)
        try:
            return _execute_experiment(experiment, folder, observer or Silent(), None, elsewhere)
        except InputError:  # a host found fault with the config before anything was sent
            if not folder.has_sent:
                shutil.rmtree(folder.path)
            raise


def resume(
    folder: RunFolder, observer: Observer | None = None, elsewhere: Execute | None = None
) -> Outcome:
    """Continue a run after its last whole checkpoint, to the same weights as if unbroken."""
    with owned(folder.path):
        if folder.finished:
            raise RunFolderError(
                f"{folder.path}: the run has finished; nothing is left to resume: {folder.advice}"
            )
        config = folder.config()
        _require_known_engine(config, elsewhere)
        checkpoint = last_checkpoint(folder.checkpoints, config.hash)
        experiment = prepare(config)
        require_unchanged(folder.path, experiment)
        return _execute_experiment(experiment, folder, observer or Silent(), checkpoint, elsewhere)


def _require_known_engine(config: RunConfig, elsewhere: Execute | None) -> None:
    if config.engine.name == "flare" and elsewhere is None:
        raise ConfigError(
            "engine.name: flare is started by `securefg run` or securefg.flare.launch; "
            "allowed here: inprocess, processes"
        )


def _execute_experiment(
    experiment: Experiment,
    folder: RunFolder,
    observer: Observer,
    checkpoint: Checkpoint | None,
    elsewhere: Execute | None,
) -> Outcome:
    if elsewhere is not None:
        return elsewhere(experiment, folder, observer)
    make_secure = partial(enrol_clients, experiment, folder)
    make_engine = partial(start_engine, experiment, folder)
    return Run(experiment, folder, observer, checkpoint, make_secure, make_engine).execute()
