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
from audits.blind import blind_view, over_draws
from audits.claim_bound import bound_of_claims
from audits.closed_form import ClosedForm
from audits.findings.record import Finding, Unmet, Verdict
from audits.foreign import ForeignTruth
from audits.games import make_game
from audits.games.base import Game, NotAsked
from audits.groups import exposure_groups, picked_targets, tail_chance, top_ten
from audits.plan import Task
from audits.truth import Truth
from audits.unread_fields import AT_HOME, cells_of
from audits.verdicts import LARGEST_TRACE, Evidence, judge_computed, judge_gain, smallest_gain
from securefg.foundation.interval import Interval
from securefg.foundation.side_by_side import OutOfTime
from securefg.foundation.streams import numpy_stream
from securefg.protocol.transcript import Adversary

Audited = Truth | ForeignTruth
BLIND_DRAWS = 10


@dataclass(frozen=True)
class Played:
    """A guess in a game."""

    game: Game
    guess: Array


@dataclass(frozen=True)
class OnControl:
    """A gain with the defence off, or the reason why there is none.

    broke  the attack broke off there, which takes back no gain that it had here
    """

    gain: Interval | None = None
    why: str = ""
    broke: bool = False


class Player:
    """A player of attacks against a run and against its control. Views are made once per adversary.

    smallest    the smallest gain that matters, or None for the default of each metric
    control     the run without its defences, or None if there is none, or if nothing defends it
    is_checked  the promises of the run were checked and held, so that its noise may be relied on
    """

    def __init__(self, truth: Audited, seed: int, smallest: float | None, defended: bool) -> None:
        self._truth, self._seed = truth, seed
        self._smallest, self._defended = smallest, defended
        self.control: Audited | None = None
        self.is_checked = False
        self._views: dict[tuple[bool, str], View] = {}
        self._blinded: dict[str, View] = {}
        self._making = Lock()

    def play(self, task: Task) -> tuple[Finding, dict[str, NDArray[Any]]]:
        """Play an attack. Return the finding, and the raw scores per target."""
        started = time.monotonic()
        try:
            played = self._play_game(task, self._truth)
        except NotAsked as reason:
            return self.unmet_finding(task, str(reason), "not_asked"), {}
        except CannotAttack as reason:
            return self._make_finding(task, started, Verdict.INCONCLUSIVE, str(reason)), {}
        game, guess = played.game, played.guess
        form = self._closed_form(game)
        if form is None:
            finding = self._measured_finding(task, started, game, guess)
        else:
            finding = self._computed_finding(task, started, game, guess, form)
        name = f"{task.attack.name}/{task.adversary}"
        scores = {f"{name}/{key}": value for key, value in game.per_record(guess).items()}
        return finding, {**scores, f"{name}/targets": game.question.ids}

    def _closed_form(self, game: Game) -> ClosedForm | None:
        """Return the gain that the law of the noise gives, where the noise may be relied on."""
        if not self.is_checked or game.closed is None:
            return None
        return game.closed(self.view(self._truth, "server"))

    def _computed_finding(
        self, task: Task, started: float, game: Game, guess: Array, form: ClosedForm
    ) -> Finding:
        """Judge by the law of the noise. A measured gain above what the law allows refutes it."""
        prior, measured = game.prior(guess), game.gain(guess)
        gain, basis = form.gain, form.basis
        verdict, because = judge_computed(form, smallest_gain(game.metric, self._smallest))
        if game.sure_gain(guess) > form.most:
            gain, basis, verdict = measured, "measured", Verdict.LEAK
            because = (
                f"{measured.value:+.3f} over the prior ({measured.low:+.3f} to "
                f"{measured.high:+.3f}), more than the claimed noise allows ({form.most:+.3f})"
            )
        seen = {"measured_gain": measured.value, "measured_low": measured.low}
        return self._scored_finding(
            task,
            started,
            game,
            (verdict, because),
            value=gain.shifted(prior.value),
            prior=prior,
            gain=gain,
            basis=basis,
            details={"most_exposed": form.most, "measured_high": measured.high, **seen},
        )

    def _measured_finding(self, task: Task, started: float, game: Game, guess: Array) -> Finding:
        rng = numpy_stream(self._seed, "null", task.attack.name, task.adversary)
        value, gain = game.measure(guess), game.gain(guess)
        null, at_chance = game.null(guess, rng)
        blind, broke = self._measure_blind_gain(task, game)
        at_chance = at_chance and (blind is None or no_gain(blind))
        control, tail = self._on_the_control(task), tail_chance(game, guess, rng)
        evidence = Evidence(
            value,
            gain,
            at_chance,
            control.gain,
            own=not self._defended,
            floor=task.attack.floor,
            smallest=smallest_gain(game.metric, self._smallest),
            noise_left=self.view(self._truth, task.adversary).noise_left,
            null_failed=broke,
            tail=tail,
        )
        verdict, because = judge_gain(evidence)
        if control.why and verdict is Verdict.INCONCLUSIVE:
            because = f"{because} (there: {control.why})"
        finding = self._scored_finding(
            task,
            started,
            game,
            (verdict, because),
            value=value,
            prior=game.prior(guess),
            gain=gain,
            null=null,
            null_at_chance=at_chance,
            blind=blind,
            positive=control.gain,
            details={
                **game.extras(guess),
                **picked_targets(game, guess),
                **top_ten(game, guess),
                **({} if tail is None else {"tail_chance": tail}),
                **({"null_failed": 1.0} if broke else {}),
                **({"noise_left": 1.0} if evidence.noise_left else {}),
            },
            groups=exposure_groups(self._truth, game, guess)
            if isinstance(self._truth, Truth)
            else (),
            failed=control.broke and verdict not in (Verdict.LEAK, Verdict.TRACE),
        )
        return self._bound_finding(task, game, finding)

    def _bound_finding(self, task: Task, game: Game, finding: Finding) -> Finding:
        """Judge a gain that was not measured to be larger by what the run's claim leaves."""
        smallest = smallest_gain(game.metric, self._smallest)
        if not self.is_checked or not isinstance(self._truth, Truth):
            return finding
        bound = bound_of_claims(self._truth, task.attack, game)
        if bound is None or bound >= min(smallest, LARGEST_TRACE):
            return finding
        if finding.verdict is Verdict.LEAK:
            return finding
        gain = Interval(value=bound, low=0.0, high=bound)
        bound_text = f"the checked claim leaves a gain of at most {bound:+.3f} for one {game.unit}"
        assert finding.gain is not None
        seen = {"measured_gain": finding.gain.value, "measured_low": finding.gain.low}
        return finding.model_copy(
            update={
                "verdict": Verdict.TRACE,
                "because": f"{bound_text}, below {smallest:g} (audit.leak_threshold)",
                "gain": gain,
                "basis": "bounded",
                "details": {**finding.details, **seen, "measured_high": finding.gain.high},
            }
        )

    def unmet_finding(self, task: Task, reason: str, kind: Unmet = "does_not_apply") -> Finding:
        """Return the finding of an attack that this run gives nothing to, or that nobody asked
        for."""
        because = reason if reason == AT_HOME else f"not run: {reason}"
        told = {"measured": False, "unmet": kind}
        return self._make_finding(task, time.monotonic(), Verdict.INCONCLUSIVE, because, **told)

    def view(self, truth: Audited, adversary: str) -> View:
        """Return what an adversary saw of the run, or of its control. Each view is made once."""
        key = (truth is self._truth, adversary)
        with self._making:
            if key not in self._views:
                self._views[key] = truth.view(Adversary.parse(adversary))
            return self._views[key]

    def _measure_blind_gain(self, task: Task, game: Game) -> tuple[Interval | None, str]:
        """Return the gain over the prior of a guess from meaningless messages, or why none was
        made.

        Targets may share the luck of one draw. A draw that gains is made several times over.
        """
        try:
            gain = self._blind_gain(task, game, self._blind_view(task.adversary))
            if no_gain(gain):
                return gain, ""
            seen = self.view(self._truth, task.adversary)
            streams = [
                numpy_stream(self._seed, "blind", task.adversary, draw)
                for draw in range(1, BLIND_DRAWS)
            ]
            more = [self._blind_gain(task, game, blind_view(seen, rng)) for rng in streams]
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
        return over_draws([gain, *more]), ""

    def _blind_gain(self, task: Task, game: Game, view: View) -> Interval:
        guess = self._run_attack(task, game, view)
        game.check(guess)
        return game.gain(guess)

    def _blind_view(self, adversary: str) -> View:
        seen = self.view(self._truth, adversary)
        with self._making:
            if adversary not in self._blinded:
                rng = numpy_stream(self._seed, "blind", adversary)
                self._blinded[adversary] = blind_view(seen, rng)
            return self._blinded[adversary]

    def _on_the_control(self, task: Task) -> OnControl:
        if self.control is None:
            return OnControl()
        try:
            played = self._play_game(task, self.control)
            played.game.check(played.guess)
            return OnControl(played.game.gain(played.guess))
        except CannotAttack as reason:
            return OnControl(why=str(reason))
        except (Exception, OutOfTime) as error:
            return OnControl(why=f"it failed: {type(error).__name__}: {error}", broke=True)

    def _play_game(self, task: Task, truth: Audited) -> Played:
        adversary = Adversary.parse(task.adversary)
        rng = numpy_stream(self._seed, "targets", task.attack.question.name, task.adversary)
        game = make_game(task.attack.question, truth, adversary, rng)
        if game.without_run is not None:
            game = replace(game, question=replace(game.question, prior=game.without_run))
        return Played(game, self._run_attack(task, game, self.view(truth, task.adversary)))

    def _run_attack(self, task: Task, game: Game, view: View) -> Array:
        rng = numpy_stream(self._seed, "guess", task.attack.name, task.adversary)
        return np.asarray(task.attack.run(view, game.question, rng), np.float64)

    def _scored_finding(
        self,
        task: Task,
        started: float,
        game: Game,
        judged: tuple[Verdict, str],
        **finding_fields: Any,
    ) -> Finding:
        """Return the finding of a guess that a game scored."""
        finding_fields |= {
            "metric": game.metric,
            "unit": game.unit,
            "targets": len(game.question.ids),
        }
        return self._make_finding(task, started, *judged, **finding_fields)

    def _make_finding(
        self, task: Task, started: float, verdict: Verdict, because: str, **found: Any
    ) -> Finding:
        attack = task.attack
        filled = {"metric": attack.question.name, "unit": "", **found}
        return Finding(
            adversary=task.adversary,
            attack=attack.name,
            method=self._truth.method_name,
            verdict=verdict,
            because=because,
            floor=attack.floor,
            assumptions=(attack.assumes,),
            cells=cells_of(attack, task.adversary),
            exposes=attack.exposes,
            stopped_by=attack.stopped_by,
            seconds=round(time.monotonic() - started, 3),
            **filled,
        )
