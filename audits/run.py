"""`securefg audit`: every attack whose needs are met, with its controls, and every promise.

No attack is reported without its prior, its null and its positive control: they are made here, not
by the attacks. An attack that fails is a finding too, and the others go on; findings are stored as
they come.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

from attacks import attack_names, get_attack
from attacks.base import Array, Attack, CannotAttack, View
from audits.blind import at_chance as no_gain
from audits.blind import blinded
from audits.control_runs import control_of, is_defended
from audits.coverage import unread, untaken
from audits.foreign import ForeignTruth, foreign_promises
from audits.games import game_module, make_game
from audits.games.base import Game
from audits.persons import named
from audits.promises import Checks, promises
from audits.truth import Truth
from audits.verdicts import Evidence, judge
from securefg.foundation.errors import ConfigError
from securefg.foundation.interval import Interval
from securefg.foundation.lock import owned
from securefg.foundation.streams import numpy_stream
from securefg.protocol.exchange import is_foreign
from securefg.protocol.transcript import Adversary
from securefg.run.findings import Finding, FindingsFile, Verdict
from securefg.run.folder import RunFolder
from securefg.settings.config import apply_override
from securefg.settings.execution import AuditSettings

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

    only         names or module paths of attacks, or `promises`; empty for all
    more         attacks beside these, by module path
    adversaries  whose views, as `server` or `client:3,5`; empty for one of each kind
    trials       of every noise mechanism that claims an epsilon
    overrides    of the run's `audit` settings, as `audit.smallest_gain=0.1`
    """

    only: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    adversaries: tuple[str, ...] = ()
    jobs: int = 1
    seed: int = 0
    trials: int = 100_000
    overrides: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (*self.only, *self.more):
            if name != PROMISES:
                attack = get_attack(name)
                with suppress(ConfigError):  # a game that is missing is the attack's finding
                    game_module(attack.game)  # the user named it, by its attack: no folder did
        names = [found.name for found in self.attacks]
        for name in {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"attack: two attacks are named {name!r}; each needs its own name")
        for text in self.adversaries:
            Adversary.parse(text)

    @property
    def attacks(self) -> list[Attack]:
        return [found for found in self._found.values() if isinstance(found, Attack)]

    @property
    def broken(self) -> dict[str, ConfigError]:
        """Attacks of installed packages that cannot be loaded: nobody asked for them by name."""
        return {n: found for n, found in self._found.items() if isinstance(found, ConfigError)}

    @property
    def _found(self) -> dict[str, Attack | ConfigError]:
        named = self.only or attack_names()
        wanted = dict.fromkeys((*named, *self.more))
        return {name: _attack(name) for name in wanted if name != PROMISES}

    @property
    def promises(self) -> bool:
        return not self.only or PROMISES in self.only

    @property
    def asked(self) -> str:
        """What it is about, in words."""
        return ", ".join((*self.only, *self.adversaries)) or "everything"

    @property
    def whole(self) -> bool:
        """Whether everything is asked for, from everybody's place."""
        return not self.only and not self.adversaries


def _attack(name: str) -> Attack | ConfigError:
    try:
        return get_attack(name)
    except ConfigError as error:
        return error


@dataclass(frozen=True)
class Task:
    """One attack from one adversary's place."""

    attack: Attack
    adversary: str


@dataclass
class Audit:
    """What was found, the raw scores, and what failed: (attack, reason)."""

    findings: list[Finding] = field(default_factory=list)
    scores: dict[str, NDArray[Any]] = field(default_factory=dict)
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def worst(self) -> Verdict:
        order = [Verdict.VIOLATION, Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.NOT_DETECTED]
        found = {finding.verdict for finding in self.findings}
        return next((v for v in order if v in found), Verdict.INCONCLUSIVE)


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
    with owned(path):
        return _audit(path, plan, told, controls)


def _audit(path: Path, plan: Plan, told: Told, controls: Path | None) -> Audit:
    torch.set_num_threads(1)
    if is_foreign(path):
        foreign = ForeignTruth.of(path)
        about = {"name": foreign.exchange.name, "method": foreign.method_name}
        return _Auditing(foreign, plan, path / "audit", about, told).carry_out(
            {PROMISES: lambda: foreign_promises(foreign)},
            lambda rounds: foreign.control(),
            foreign.defended,
        )
    truth = Truth.of(RunFolder.open(path))
    about = {
        "name": truth.config.name,
        "config_hash": truth.config.hash,
        "method": truth.method_name,
    }
    root = controls or truth.folder.path / "audit" / "control"
    return _Auditing(truth, plan, truth.folder.path / "audit", about, told).carry_out(
        promises(truth, plan.trials, plan.seed),
        lambda rounds: control_of(truth, rounds, root),
        is_defended(truth.experiment.policy),
    )


class _Auditing:
    """One audit on its way: every finding is stored as it comes."""

    def __init__(
        self, truth: Audited, plan: Plan, folder: Path, about: dict[str, str], told: Told
    ) -> None:
        self._truth, self._plan, self._told = truth, plan, told
        stored = truth.config.audit if isinstance(truth, Truth) else AuditSettings()
        self._smallest = _audit_settings(stored, plan.overrides).smallest_gain
        about = {**about, "smallest_gain": f"{self._smallest:g}"}
        self._file = FindingsFile.begin(folder, about, anew=plan.whole, asked=plan.asked)
        self._result = Audit()

    def carry_out(
        self,
        checks: Checks,
        control: Callable[[int], Audited | None],
        defended: bool,
    ) -> Audit:
        player = Player(self._truth, self._plan.seed, self._smallest, defended)
        tasks = list(self._tasks(player))
        total = len(tasks) + 1
        if self._plan.promises:
            self._told("promises", 0, total)
            for name, check in checks.items():
                self._attempt(name, check)
        if tasks and defended:
            self._told("positive control: the run without its defences", 0, total)
            player.control = self._control(control, max(task.attack.rounds for task in tasks))
        self._play_all(player, tasks)
        self._cover()
        self._file.close(self._result.scores)
        self._result.findings = self._file.findings
        return self._result

    def _tasks(self, player: Player) -> Iterator[Task]:
        """The attacks to run; those whose needs are not met are findings at once."""
        for name, error in self._plan.broken.items():
            self._fail(name, "-", error)
        for attack in self._plan.attacks:
            reason = self._truth.spoken.unmet(attack)
            if reason is not None:
                self._keep([player.unmet(Task(attack, "-"), reason)])
                continue
            chosen = list(_adversaries(self._plan, attack))
            if not chosen and self._plan.only:
                whose = " or ".join(sorted(attack.adversaries))
                self._keep([player.unmet(Task(attack, "-"), f"it is mounted by {whose}")])
            for adversary in chosen:
                yield from self._applicable(player, Task(attack, adversary))

    def _applicable(self, player: Player, task: Task) -> Iterator[Task]:
        try:
            reason = task.attack.applies_to(player.view(self._truth, task.adversary))
        except CannotAttack as error:
            reason = str(error)
        except Exception as error:
            self._fail(task.attack.name, task.adversary, error)
            return
        if reason is None:
            yield task
        else:
            self._keep([player.unmet(task, reason)])

    def _attempt(self, name: str, make: Callable[[], Iterable[Finding]]) -> None:
        try:
            self._keep(make())
        except Exception as error:
            self._fail(name, "-", error)

    def _control(self, make: Callable[[int], Audited | None], rounds: int) -> Audited | None:
        try:
            return make(rounds)
        except Exception as error:
            self._fail("positive_control", "-", error)
            return None

    def _play_all(self, player: Player, tasks: list[Task]) -> None:
        # Attacks on noise divide by zero and fail to converge as a matter of course.
        with warnings.catch_warnings(), ThreadPoolExecutor(max(1, self._plan.jobs)) as pool:
            warnings.simplefilter("ignore")
            playing = {pool.submit(player.play, task): task for task in tasks}
            for number, done in enumerate(as_completed(playing), 1):
                task = playing[done]
                try:
                    finding, scores = done.result()
                except Exception as error:
                    self._fail(task.attack.name, task.adversary, error)
                else:
                    self._keep([finding])
                    self._result.scores |= scores
                self._told(task.attack.name, number, len(tasks) + 1)

    def _fail(self, attack: str, adversary: str, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        self._result.failed.append((attack, said))
        self._keep([_failed(self._truth.method_name, attack, adversary, said)])

    def _keep(self, findings: Iterable[Finding]) -> None:
        self._file.add(findings)

    def _cover(self) -> None:
        """What no stored finding is about, over everything that this folder has been asked."""
        played = [f for f in self._file.findings if f.measured and f.gain is not None]
        known = {attack.name: attack for attack in self._plan.attacks}
        for name in {f.attack for f in played} - set(known):
            try:
                known[name] = get_attack(name)
            except Exception:
                continue
        read = [(known[f.attack], f.adversary) for f in played if f.attack in known]
        method = self._truth.method_name
        whose = [f.adversary for f in played]
        self._file.replace_coverage(
            [*unread(self._truth.spoken, read, method), *untaken(whose, method)]
        )


def _audit_settings(stored: AuditSettings, overrides: tuple[str, ...]) -> AuditSettings:
    """What judges the run may be set anew; what made it may not."""
    for override in overrides:
        if not override.startswith("audit.smallest_gain="):
            raise ConfigError(
                f"--set {override}: a run is audited as it was made; allowed: audit.smallest_gain"
            )
    tree = {"audit": stored.model_dump(mode="json")}
    for override in overrides:
        apply_override(tree, override)
    try:
        return AuditSettings.model_validate(tree["audit"])
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(
            f"audit.smallest_gain: {wrong['msg']}, found {wrong['input']!r}"
        ) from error


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

    control  the run without its defences; None where there is none, or where nothing defends it
    """

    def __init__(self, truth: Audited, seed: int, smallest_gain: float, defended: bool) -> None:
        self._truth, self._seed = truth, seed
        self._smallest, self._defended = smallest_gain, defended
        self.control: Audited | None = None
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
        blind = self._blind(task, game)
        at_chance = at_chance and (blind is None or no_gain(blind))
        control, why = self._on_the_control(task)
        evidence = Evidence(
            value,
            gain,
            at_chance,
            control,
            own=not self._defended,
            floor=task.attack.floor,
            smallest=self._smallest,
            noise_left=self.view(self._truth, task.adversary).noise_left,
        )
        verdict, because = judge(evidence)
        if why and verdict is Verdict.INCONCLUSIVE:
            because = f"{because} (there: {why})"
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
            blind=blind,
            positive=control,
            targets=len(game.targets.ids),
            details={**game.extras(guess), **named(game, guess)},
        )
        name = f"{task.attack.name}/{task.adversary}"
        scores = {f"{name}/{key}": value for key, value in game.per_record(guess).items()}
        return finding, {**scores, f"{name}/targets": game.targets.ids}

    def unmet(self, task: Task, reason: str) -> Finding:
        """An attack that this run gives nothing to."""
        return self._finding(
            task, time.monotonic(), Verdict.INCONCLUSIVE, f"not run: {reason}", measured=False
        )

    def view(self, truth: Audited, adversary: str) -> View:
        key = (truth is self._truth, adversary)
        with self._making:
            if key not in self._views:
                self._views[key] = truth.view(Adversary.parse(adversary))
            return self._views[key]

    def _blind(self, task: Task, game: Game) -> Interval | None:
        """The gain over the prior of a guess from meaningless messages; None where none is made."""
        rng = numpy_stream(self._seed, "blind", task.adversary)
        view = blinded(self.view(self._truth, task.adversary), rng)
        guesser = numpy_stream(self._seed, "guess", task.attack.name, task.adversary)
        try:
            guess = np.asarray(task.attack.run(view, game.targets, guesser), np.float64)
            game.check(guess)
        except Exception:  # noise is not what an attack is written for: it then knows nothing
            return None
        return game.gain(guess)

    def _on_the_control(self, task: Task) -> tuple[Interval | None, str]:
        """The gain with the defence off, or why there is none."""
        if self.control is None:
            return None, ""
        try:
            played = self._played(task, self.control)
        except CannotAttack as reason:
            return None, str(reason)
        return played.game.gain(played.guess), ""

    def _played(self, task: Task, truth: Audited) -> Played:
        adversary = Adversary.parse(task.adversary)
        rng = numpy_stream(self._seed, "targets", task.attack.game, task.adversary)
        game = make_game(task.attack.game, truth, adversary, rng)
        guesser = numpy_stream(self._seed, "guess", task.attack.name, task.adversary)
        guess = task.attack.run(self.view(truth, task.adversary), game.targets, guesser)
        return Played(game, np.asarray(guess, np.float64))

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
            assumptions=(attack.assumes,),
            seconds=round(time.monotonic() - started, 3),
            **filled,
        )


def _failed(method: str, attack: str, adversary: str, reason: str) -> Finding:
    return Finding(
        adversary=adversary,
        attack=attack,
        method=method,
        metric="-",
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because=f"it failed: {reason}",
        failed=True,
    )
