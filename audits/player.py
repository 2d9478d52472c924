"""Plays an attack against a run with all its controls, and judges what they show together."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack, View
from audits.blind import at_chance as no_gain
from audits.blind import blinded
from audits.coverage import AT_HOME
from audits.foreign import ForeignTruth
from audits.games import make_game
from audits.games.base import Game, NotAsked
from audits.groups import groups, top_ten
from audits.picked_targets import picked_targets
from audits.plan import Task
from audits.truth import Truth
from audits.verdicts import Evidence, judge
from securefg.foundation.interval import Interval
from securefg.foundation.side_by_side import OutOfTime
from securefg.foundation.streams import numpy_stream
from securefg.protocol.transcript import Adversary
from securefg.run.findings import Finding, Verdict

Audited = Truth | ForeignTruth


@dataclass(frozen=True)
class Played:
    """One guess in one game."""

    game: Game
    guess: Array


@dataclass(frozen=True)
class OnControl:
    """The gain with the defence off, or why there is none.

    broke  the attack broke off there, which takes back no gain that it had here
    """

    gain: Interval | None = None
    why: str = ""
    broke: bool = False


class Player:
    """Plays attacks against a run and against its control; views are made once per adversary.

    control  the run without its defences; None where there is none, or where nothing defends it
    """

    def __init__(self, truth: Audited, seed: int, smallest_gain: float, defended: bool) -> None:
        self._truth, self._seed = truth, seed
        self._smallest, self._defended = smallest_gain, defended
        self.control: Audited | None = None
        self._views: dict[tuple[bool, str], View] = {}
        self._blinded: dict[str, View] = {}
        self._making = Lock()

    def play(self, task: Task) -> tuple[Finding, dict[str, NDArray[Any]]]:
        """The finding, and the raw scores per target."""
        started = time.monotonic()
        try:
            played = self._played(task, self._truth)
        except NotAsked as reason:
            return self.unmet(task, str(reason)), {}
        except CannotAttack as reason:
            return self._finding(task, started, Verdict.INCONCLUSIVE, str(reason)), {}
        rng = numpy_stream(self._seed, "null", task.attack.name, task.adversary)
        game, guess = played.game, played.guess
        value, gain = game.measure(guess), game.gain(guess)
        null, at_chance = game.null(guess, rng)
        blind, broke = self._blind(task, game)
        at_chance = at_chance and (blind is None or no_gain(blind))
        control = self._on_the_control(task)
        evidence = Evidence(
            value,
            gain,
            at_chance,
            control.gain,
            own=not self._defended,
            floor=task.attack.floor,
            smallest=self._smallest,
            noise_left=self.view(self._truth, task.adversary).noise_left,
            null_failed=broke,
        )
        verdict, because = judge(evidence)
        if control.why and verdict is Verdict.INCONCLUSIVE:
            because = f"{because} (there: {control.why})"
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
            positive=control.gain,
            targets=len(game.targets.ids),
            details={**game.extras(guess), **picked_targets(game, guess), **top_ten(game, guess)},
            groups=groups(self._truth, game, guess) if isinstance(self._truth, Truth) else (),
            failed=control.broke and verdict is not Verdict.LEAK,
        )
        name = f"{task.attack.name}/{task.adversary}"
        scores = {f"{name}/{key}": value for key, value in game.per_record(guess).items()}
        return finding, {**scores, f"{name}/targets": game.targets.ids}

    def unmet(self, task: Task, reason: str) -> Finding:
        """An attack that this run gives nothing to."""
        because = reason if reason == AT_HOME else f"not run: {reason}"
        return self._finding(task, time.monotonic(), Verdict.INCONCLUSIVE, because, measured=False)

    def view(self, truth: Audited, adversary: str) -> View:
        key = (truth is self._truth, adversary)
        with self._making:
            if key not in self._views:
                self._views[key] = truth.view(Adversary.parse(adversary))
            return self._views[key]

    def _blind(self, task: Task, game: Game) -> tuple[Interval | None, str]:
        """The gain over the prior of a guess from meaningless messages; or why none was made."""
        view = self._blind_view(task.adversary)
        guesser = numpy_stream(self._seed, "guess", task.attack.name, task.adversary)
        try:
            guess = np.asarray(task.attack.run(view, game.targets, guesser), np.float64)
            game.check(guess)
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
        return game.gain(guess), ""

    def _blind_view(self, adversary: str) -> View:
        seen = self.view(self._truth, adversary)
        with self._making:
            if adversary not in self._blinded:
                rng = numpy_stream(self._seed, "blind", adversary)
                self._blinded[adversary] = blinded(seen, rng)
            return self._blinded[adversary]

    def _on_the_control(self, task: Task) -> OnControl:
        if self.control is None:
            return OnControl()
        try:
            played = self._played(task, self.control)
            played.game.check(played.guess)
            return OnControl(played.game.gain(played.guess))
        except CannotAttack as reason:
            return OnControl(why=str(reason))
        except (Exception, OutOfTime) as error:
            return OnControl(why=f"it failed: {type(error).__name__}: {error}", broke=True)

    def _played(self, task: Task, truth: Audited) -> Played:
        adversary = Adversary.parse(task.adversary)
        rng = numpy_stream(self._seed, "targets", task.attack.game, task.adversary)
        game = make_game(task.attack.game, truth, adversary, rng)
        if game.without_run is not None:
            game = replace(game, targets=replace(game.targets, prior=game.without_run))
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
