"""`securefg audit`: every attack that applies, with its controls, and every promise, checked.

No attack is reported without its prior, its null and its positive control: they are made here, not
by the attacks.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attacks import attack_names, attacks_on, get_attack
from attacks.base import Array, Attack, CannotAttack, View
from audits.control_runs import control_of, is_defended
from audits.findings import Figure, Finding, Verdict, judge, write_findings
from audits.foreign import ForeignTruth, foreign_promises
from audits.games import make_game
from audits.games.base import Game
from audits.promises import broken_promises
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.foundation.files import write_atomically
from securefg.foundation.streams import numpy_stream
from securefg.protocol.exchange import is_foreign
from securefg.protocol.transcript import Adversary
from securefg.run.folder import RunFolder

DEFAULT_ADVERSARY = {
    "server": "server",
    "client": "client:0",
    "wire": "wire",
    "outsider": "outsider",
}
PROMISES = "promises"


@dataclass(frozen=True)
class Plan:
    """What to audit.

    only         names of attacks, or `promises`; empty for all
    adversaries  whose views, as `server` or `client:3,5`; empty for one of each kind
    trials       of every noise mechanism that claims an epsilon
    """

    only: tuple[str, ...] = ()
    adversaries: tuple[str, ...] = ()
    jobs: int = 1
    seed: int = 0
    trials: int = 100_000

    def __post_init__(self) -> None:
        known = [*attack_names(), PROMISES]
        for name in self.only:
            if name not in known:
                raise ConfigError(f"unknown attack {name!r}; allowed: {', '.join(known)}")
        for text in self.adversaries:
            Adversary.parse(text)


@dataclass(frozen=True)
class Task:
    """One attack from one adversary's place."""

    attack: Attack
    adversary: str


@dataclass
class Audit:
    """What was found, and the raw scores."""

    findings: list[Finding] = field(default_factory=list)
    scores: dict[str, NDArray[Any]] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def worst(self) -> Verdict:
        order = [Verdict.VIOLATION, Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.NOT_DETECTED]
        found = {finding.verdict for finding in self.findings}
        return next((v for v in order if v in found), Verdict.NOT_DETECTED)


Told = Callable[[str, int, int], None]
Audited = Truth | ForeignTruth


def audit(
    path: Path,
    plan: Plan,
    told: Told = lambda what, done, total: None,
    controls: Path | None = None,
) -> Audit:
    """Audit a finished run; writes audit/findings.json and audit/scores.npz into its folder.

    controls  where the run without its defences is kept; by default in the run's own folder
    """
    if is_foreign(path):
        return audit_exchange(path, plan, told)
    truth = Truth.of(RunFolder.open(path))
    torch.set_num_threads(1)
    result = Audit()
    tasks, result.skipped = plan_tasks(truth.method_name, truth.config.method, plan)
    total = len(tasks) + 1
    told("promises", 0, total)
    if not plan.only or PROMISES in plan.only:
        result.findings += broken_promises(truth, plan.trials, plan.seed)
    control = None
    if tasks and is_defended(truth.experiment.policy):
        told("positive control: the run without its defences", 0, total)
        root = controls or truth.folder.path / "audit" / "control"
        control = control_of(truth, max(task.attack.rounds for task in tasks), root)
    _play_all(Player(truth, control or truth, plan.seed), tasks, plan.jobs, result, told)
    about = {"name": truth.config.name, "config_hash": truth.config.hash}
    _write(truth.folder.path / "audit", {**about, "method": truth.method_name}, result)
    return result


def audit_exchange(path: Path, plan: Plan, told: Told) -> Audit:
    """Audit what another framework exchanged, as its foreign.yaml describes it."""
    truth = ForeignTruth.of(path)
    result = Audit()
    tasks, result.skipped = plan_tasks(truth.method_name, truth.exchange, plan)
    if not plan.only or PROMISES in plan.only:
        result.findings += foreign_promises(truth)
    _play_all(Player(truth, truth.control(), plan.seed), tasks, plan.jobs, result, told)
    _write(path / "audit", {"name": truth.exchange.name, "method": truth.method_name}, result)
    return result


def _play_all(player: Player, tasks: list[Task], jobs: int, result: Audit, told: Told) -> None:
    # Attacks on noise divide by zero and fail to converge as a matter of course.
    with warnings.catch_warnings(), ThreadPoolExecutor(max(1, jobs)) as pool:
        warnings.simplefilter("ignore")
        for number, (finding, scores) in enumerate(pool.map(player.play, tasks), 1):
            result.findings.append(finding)
            result.scores |= scores
            told(finding.attack, number, len(tasks) + 1)


def plan_tasks(method: str, settings: Any, plan: Plan) -> tuple[list[Task], list[tuple[str, str]]]:
    """The attacks to run, and those left out with the reason."""
    wanted = [get_attack(name) for name in plan.only if name != PROMISES]
    tasks, skipped = [], []
    for attack in wanted or ([] if plan.only else attacks_on(method)):
        reason = attack.applies_to(settings) if method in attack.methods else f"not for {method}"
        if reason is not None:
            skipped.append((attack.name, reason))
            continue
        chosen = list(_adversaries(plan, attack))
        if not chosen:
            skipped.append((attack.name, f"needs {' or '.join(sorted(attack.adversaries))}"))
        tasks += [Task(attack, adversary) for adversary in chosen]
    return tasks, skipped


def _adversaries(plan: Plan, attack: Attack) -> Iterator[str]:
    if not plan.adversaries:
        yield from (DEFAULT_ADVERSARY[kind] for kind in sorted(attack.adversaries))
    for text in plan.adversaries:
        if Adversary.parse(text).kind in attack.adversaries:
            yield text


@dataclass(frozen=True)
class Played:
    """One guess in one game."""

    game: Game
    guess: Array


class Player:
    """Plays attacks against a run and against its control; views are made once per adversary.

    control  the run itself where it has no defences; None where there is no run without them
    """

    def __init__(self, truth: Audited, control: Audited | None, seed: int) -> None:
        self._truth, self._control, self._seed = truth, control, seed
        self._views: dict[tuple[bool, str], View] = {}
        self._making = Lock()

    def play(self, task: Task) -> tuple[Finding, dict[str, NDArray[Any]]]:
        """The finding, and the raw scores per target."""
        started = time.monotonic()
        try:
            played = self._played(task, self._truth)
        except CannotAttack as reason:
            return self._finding(task, started, Verdict.INCONCLUSIVE, str(reason)), {}
        rng = numpy_stream(self._seed, "null", task.attack.name, task.adversary)
        game, guess = played.game, played.guess
        value, gain = game.measure(guess), game.gain(guess)
        null, at_chance = game.null(guess, rng)
        positive = gain if self._control is self._truth else self._positive(task)
        verdict, because = judge(value, gain, at_chance, positive, task.attack.floor)
        finding = self._finding(
            task,
            started,
            verdict,
            because,
            metric=game.metric,
            unit=game.unit,
            value=value,
            prior=game.prior(guess),
            gain=gain,
            null=null,
            null_at_chance=at_chance,
            positive=positive,
            targets=len(game.targets.ids),
            details=game.extras(guess),
        )
        name = f"{task.attack.name}/{task.adversary}"
        scores = {f"{name}/{key}": value for key, value in game.per_record(guess).items()}
        return finding, {**scores, f"{name}/targets": game.targets.ids}

    def _positive(self, task: Task) -> Figure | None:
        if self._control is None:
            return None
        try:
            played = self._played(task, self._control)
        except CannotAttack:
            return None
        return played.game.gain(played.guess)

    def _played(self, task: Task, truth: Audited) -> Played:
        adversary = Adversary.parse(task.adversary)
        rng = numpy_stream(self._seed, "targets", task.attack.game, task.adversary)
        game = make_game(task.attack.game, truth, adversary, rng)
        guesser = numpy_stream(self._seed, "guess", task.attack.name, task.adversary)
        guess = task.attack.run(self._view(truth, task.adversary), game.targets, guesser)
        return Played(game, np.asarray(guess, np.float64))

    def _view(self, truth: Audited, adversary: str) -> View:
        key = (truth is self._truth, adversary)
        with self._making:
            if key not in self._views:
                self._views[key] = truth.view(Adversary.parse(adversary))
            return self._views[key]

    def _finding(
        self, task: Task, started: float, verdict: Verdict, because: str, **found: Any
    ) -> Finding:
        attack = task.attack
        filled = {"metric": attack.game, "unit": "", **found}
        return Finding(
            adversary=task.adversary,
            attack=attack.name,
            method=self._truth.method_name,
            verdict=verdict,
            because=because,
            floor=attack.floor,
            assumptions=(attack.needs,),
            seconds=round(time.monotonic() - started, 3),
            **filled,
        )


def _write(folder: Path, about: dict[str, Any], result: Audit) -> None:
    folder.mkdir(exist_ok=True)
    skipped = [{"attack": name, "because": reason} for name, reason in result.skipped]
    run = {**about, "skipped": skipped}
    write_findings(folder / "findings.json", run, result.findings)
    buffer = io.BytesIO()
    arrays: dict[str, Any] = result.scores
    np.savez_compressed(buffer, **arrays)
    write_atomically(folder / "scores.npz", buffer.getvalue())
