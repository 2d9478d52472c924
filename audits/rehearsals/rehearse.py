"""`securefg rehearse`: every active attack, or some, on federations that are deleted afterwards.

One config is dealt out with its defences and without, and lied to. The table shows, beside the
verdicts, what each lie was and who could notice.
"""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.table import Table

from attacks import get_active, load_active_attacks
from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import CannotAttack, View
from attacks.questions import Question
from audits.control_runs import is_defended, strip_noise
from audits.findings.record import Finding, Verdict
from audits.games import make_game
from audits.plan import Task
from audits.player import Player
from audits.rehearsals.throwaway import Rehearsed, federate_rounds, new_truth, throwaway_config
from audits.table import escape_text
from audits.truth import Truth
from securefg.foundation.streams import numpy_stream
from securefg.protocol.transcript import Adversary
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import RunConfig
from securefg.site.policy import JobRefused, SitePolicy

SERVER = "server"
MANY_REASONS = 2


class Stage:
    """A stage that plays active attacks. Everything that it makes lies under `root`."""

    def __init__(self, config: RunConfig, root: Path, seed: int) -> None:
        self._root, self._seed, self._made = root, seed, 0
        self._config = throwaway_config(config)
        self.experiment = prepare(self._config)
        self._defended = is_defended(self.experiment.policy)
        self._honest: dict[int, Truth] = {}

    def play(self, attack: ActiveAttack) -> Finding:
        """Play an attack on clients as the config defends them, with the positive control. Return
        the finding, with what the same guess gains if nobody lies beside it."""
        reason = self._unmet_reason(attack)
        if reason is not None:
            return self.unplayed(attack, f"not run: {reason}")
        lied = self._lie_to_clients(self.experiment, attack)
        player = self._make_player(lied.truth, self._defended)
        if self._defended:
            player.control = self._lie_to_clients(prepare(strip_noise(self._config)), attack).truth
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in an audit: attacks on noise divide by zero
            finding, _ = player.play(Task(attack, SERVER))
            honest, _ = self._make_player(self._told_nothing(attack), False).play(
                Task(attack, SERVER)
            )
        return _complete_finding(finding, honest, lied)

    def unplayed(self, attack: ActiveAttack, because: str, failed: bool = False) -> Finding:
        """Return the finding of an attack that was not played, or that failed."""
        return Finding(
            adversary=SERVER,
            attack=attack.name,
            method=self.experiment.method.name,
            metric=attack.question.name,
            unit="-",
            verdict=Verdict.INCONCLUSIVE,
            because=because,
            measured=failed,
            failed=failed,
            assumptions=(attack.assumes,),
        )

    def _unmet_reason(self, attack: ActiveAttack) -> str | None:
        truth = self._new_folder_truth(self.experiment)
        try:
            reason = truth.spoken.unmet_need(attack) or attack.applies_to(_view_before(truth))
            if reason is None:
                self._ask_targets(truth, attack)  # raises where there is nothing to ask
        except CannotAttack as error:
            return str(error)
        return reason

    def _make_player(self, truth: Truth, defended: bool) -> Player:
        return Player(truth, self._seed, self._config.audit.leak_threshold, defended)

    def _lie_to_clients(self, experiment: Experiment, attack: ActiveAttack) -> Rehearsed:
        truth = self._new_folder_truth(experiment)
        known, targets = _view_before(truth), self._ask_targets(truth, attack)
        rng = numpy_stream(self._seed, "lie", attack.name)
        lie = partial(_tell_lie, attack, known, targets, rng)
        return federate_rounds(experiment, truth.folder, self._attack_rounds(attack), lie)

    def _told_nothing(self, attack: ActiveAttack) -> Truth:
        rounds = self._attack_rounds(attack)
        if rounds not in self._honest:
            folder = self._new_folder_truth(self.experiment).folder
            self._honest[rounds] = federate_rounds(self.experiment, folder, rounds).truth
        return self._honest[rounds]

    def _attack_rounds(self, attack: ActiveAttack) -> int:
        return min(attack.rounds, self._config.training.rounds)

    def _ask_targets(self, truth: Truth, attack: ActiveAttack) -> Question:
        """Return the question that the adversary wants answered, which is the same that it is asked
        later."""
        rng = numpy_stream(self._seed, "targets", attack.question.name, SERVER)
        return make_game(attack.question, truth, Adversary.parse(SERVER), rng).question

    def _new_folder_truth(self, experiment: Experiment) -> Truth:
        self._made += 1
        return new_truth(experiment, self._root / str(self._made))


def _tell_lie(
    attack: ActiveAttack,
    known: View,
    question: Question,
    rng: np.random.Generator,
    request: Request,
) -> Sequence[Told]:
    return attack.lie(known, question, request, rng)


def _view_before(truth: Truth) -> View:
    """Return the server's knowledge before anything was sent."""
    x = truth.experiment
    return View(
        adversary=Adversary.parse(SERVER),
        public=x.public,
        meanings=truth.meanings,
        networks=truth.networks,
        training=x.config.training,
        release_kind=x.method.release.kind,
    )


def _complete_finding(finding: Finding, honest: Finding, lied: Rehearsed) -> Finding:
    """Return the finding with what the lie was, what was refused, and what the same guess gains
    without a lie."""
    details = {
        **finding.details,
        "requests": float(lied.requests),
        "lies": float(lied.lies),
        "norm_beside_honest": lied.largest,
        "refused": float(len(lied.refused)),
    }
    if honest.gain is not None:
        details["gain_without_lie"] = honest.gain.value
    because = finding.because
    if lied.refused:
        shown = "; ".join(dict.fromkeys(lied.refused[:MANY_REASONS]))
        because = f"{because}; refused: {shown}"
    return finding.model_copy(update={"details": details, "because": because})


@dataclass(frozen=True)
class Rehearsal:
    """A list of findings, and of failures: (attack, reason).

    floor  why a site with the default floor takes no part in this config, empty if it does
    """

    findings: list[Finding] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    floor: str = ""


def rehearse_attacks(
    config: RunConfig,
    only: Sequence[str] = (),
    seed: int = 0,
    report_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Rehearsal:
    """Play active attacks on this config's clients, all in a folder of their own, and return the
    rehearsal."""
    torch.set_num_threads(1)
    attacks = [get_active(name) for name in (only or load_active_attacks())]
    with tempfile.TemporaryDirectory(prefix="securefg-rehearsal-") as folder:
        stage = Stage(config, Path(folder), seed)
        rehearsal = Rehearsal(floor=floor_of(stage.experiment))
        for number, attack in enumerate(attacks):
            report_progress(attack.name, number, len(attacks))
            try:
                rehearsal.findings.append(stage.play(attack))
            except Exception as error:
                said = _in_words(error)
                rehearsal.failed.append((attack.name, said))
                rehearsal.findings.append(stage.unplayed(attack, f"it failed: {said}", failed=True))
    return rehearsal


def floor_of(experiment: Experiment) -> str:
    """Return what a site with the default floor, open to all methods, has against the config.

    Every client counts as an organisation of its own.
    """
    x = experiment
    organisations = {f"client-{number}": 1 for number in range(x.public.num_clients)}
    planned = x.method.releases(x.config.method, x.config.training, x.public)
    try:
        SitePolicy(methods="any").check(x.config, x.policy, planned, organisations)
    except JobRefused as refusal:
        return str(refusal)
    return ""


def _in_words(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"


def lies_table(findings: list[Finding]) -> Table:
    """Return a table with a row per attack that was played."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("lie", "gain without it", "requests", "refused", "what a client could notice"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        details = finding.details
        if "lies" not in details:
            continue
        honest = details.get("gain_without_lie")
        table.add_row(
            escape_text(finding.attack.replace("_", " ")),
            "-" if honest is None else f"{honest:+.3f}",
            f"{details['requests']:.0f}, {details['lies']:.0f} of them lies",
            f"{details['refused']:.0f} rounds",
            escape_text(get_active(finding.attack).noticed),
        )
    return table
