"""The positive control: the same attack on the same run with its defences off.

A defended run on which an attack stays silent says nothing by itself, because the attack may be
weak. The run is therefore made once more without noise and masks, for as many rounds as the attacks
want to see, and every attack must reach its floor there. A run without defences has no control, and
an attack's silence on it says nothing.
"""

from __future__ import annotations

from pathlib import Path

from audits.findings.history import require_as_it_ended
from audits.truth import Truth
from securefg.foundation.errors import RunFolderError
from securefg.foundation.versions import list_versions
from securefg.privacy.policy import Policy
from securefg.protocol.transcript import broken_link
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig
from securefg.settings.privacy import PrivacySettings
from securefg.sweep.cache import find_run, lock_point


def is_defended(policy: Policy) -> bool:
    """Return whether anything private leaves under a mask, or with noise that nobody can draw
    again."""
    noised = any(not rule.is_bare for rule in policy.rules.values())
    return bool(policy.masked) or (policy.protects and noised)


def control_of(truth: Truth, rounds: int, root: Path) -> Truth:
    """Return the run itself, or the same run without its defences, which is made once and then
    found by its hash."""
    if not is_defended(truth.experiment.policy):
        return truth
    config = undefended_config(truth.config, rounds, root)
    with lock_point(root, config.hash, lambda: False):
        found = find_run(root, config.hash)
        if found is None or not _is_as_it_ended(found):
            found = runner.start(config, fresh=True).folder
    return Truth.of(found).judged_by(truth.config.audit)


def _is_as_it_ended(run_folder: RunFolder) -> bool:
    """Return whether the run was made whole by this version and did not change since. A changed run
    shows no attack's power."""
    try:
        summary = run_folder.summary()
        require_as_it_ended(run_folder.path)
        broken = broken_link(run_folder.transcript, summary.transcript_chain)
    except RunFolderError:
        return False
    return broken is None and summary.versions.get("securefg") == list_versions()["securefg"]


def strip_noise(config: RunConfig) -> RunConfig:
    """Return the config without noise on uploads, noise in training, and masks."""
    update = {"privacy": PrivacySettings(), "training": config.training.without_noise()}
    return config.model_copy(update=update)


def undefended_config(config: RunConfig, rounds: int, root: Path) -> RunConfig:
    """Return the config of the positive control: the same run without its defences."""
    bare = strip_noise(config)
    training = bare.training.model_copy(
        update={"rounds": min(rounds, config.training.rounds), "patience": None}
    )
    output = config.output.model_copy(
        update={"root": root, "transcript_every": 1, "checkpoint_every": max(rounds, 1)}
    )
    engine = config.engine.model_copy(update={"name": "inprocess"})
    return bare.model_copy(
        update={"name": "control", "training": training, "output": output, "engine": engine}
    )
