"""`securefg audit`: every attack whose needs are met, with its controls, and every promise.

No attack is reported without its prior, its null and its positive control: they are made here, not
by the attacks. An attack that fails is a finding too, and the others go on. Findings are stored as
they come.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from attacks import get_attack
from attacks.base import CannotAttack, View
from audits.claim_bound import are_promises_kept
from audits.control_runs import control_of, is_defended
from audits.findings.file import FindingsFile
from audits.findings.record import WORST_FIRST, Finding, Unmet, Verdict
from audits.foreign import ForeignTruth, foreign_promises
from audits.games import has_closed_form
from audits.plan import PROMISES, Plan, Task, adversaries_of
from audits.player import Audited, Player
from audits.promises import Checks, list_checks
from audits.settings import audit_settings
from audits.truth import Truth
from audits.unread_fields import cells_of, not_asked, unread_findings, untaken_findings
from securefg.foundation.lock import owned
from securefg.foundation.side_by_side import TookTooLong, side_by_side
from securefg.protocol.exchange import is_foreign
from securefg.runs.folder import RunFolder
from securefg.settings.execution import AuditSettings


@dataclass
class Audit:
    """A list of findings, the raw scores, and the failures: (attack, reason)."""

    findings: list[Finding] = field(default_factory=list)
    scores: dict[str, NDArray[Any]] = field(default_factory=dict)
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def worst(self) -> Verdict:
        """Return the worst verdict of all findings."""
        found = {finding.verdict for finding in self.findings}
        return next((v for v in WORST_FIRST if v in found), Verdict.INCONCLUSIVE)


Told = Callable[[str, int, int], None]


def audit(
    path: Path,
    plan: Plan,
    report_progress: Told = lambda what, done, total: None,
    controls: Path | None = None,
) -> Audit:
    """Audit a finished run, write audit/findings.json and audit/scores.npz into its folder, and
    return the audit.

    controls  where the run without its defences is kept, by default in the run's own folder
    """
    with owned(path):
        return _audit_truth(path, plan, report_progress, controls)


def _audit_truth(path: Path, plan: Plan, report_progress: Told, controls: Path | None) -> Audit:
    torch.set_num_threads(1)
    if is_foreign(path):
        foreign = ForeignTruth.from_path(path, plan.network, plan.data)
        plan.check_clients(foreign.exchange.clients)
        about = {
            "name": foreign.exchange.name,
            "method": foreign.method_name,
            "record": foreign.record,
        }
        return Auditing(foreign, plan, path / "audit", about, report_progress).carry_out(
            {PROMISES: lambda: foreign_promises(foreign)},
            lambda rounds: foreign.undefended_truth(),
            foreign.defended,
        )
    plan.check_own_run()
    recorded = Truth.of(RunFolder.open(path))
    plan.check_clients(recorded.experiment.public.num_clients)
    truth = recorded.judged_by(audit_settings(recorded.config.audit, plan.overrides))
    about = {
        "name": truth.config.name,
        "config_hash": truth.config.hash,
        "method": truth.method_name,
        "record": truth.folder.summary().transcript_chain,
    }
    root = controls or truth.folder.path / "audit" / "control"
    return Auditing(truth, plan, truth.folder.path / "audit", about, report_progress).carry_out(
        list_checks(truth, plan.trials, plan.seed, plan.thorough),
        lambda rounds: control_of(truth, rounds, root),
        is_defended(truth.experiment.policy),
    )


class Auditing:
    """An audit on its way: every finding is stored as it comes."""

    def __init__(
        self, truth: Audited, plan: Plan, folder: Path, about: dict[str, str], told: Told
    ) -> None:
        self._truth, self._plan, self._told = truth, plan, told
        stored = truth.config.audit if isinstance(truth, Truth) else AuditSettings()
        settings = audit_settings(stored, plan.overrides)
        self._smallest, self._seconds = settings.leak_threshold, settings.attack_seconds
        self._file = FindingsFile.begin(
            folder, about, anew=plan.whole, asked=plan.asked, terms=plan.audit_terms(settings)
        )
        self._result = Audit()
        self._unmet: list[Finding] = []

    def carry_out(
        self,
        checks: Checks,
        control: Callable[[int], Audited | None],
        defended: bool,
    ) -> Audit:
        """Check the promises, play all attacks, and return what was found."""
        player = Player(self._truth, self._plan.seed, self._smallest, defended)
        tasks = list(self._list_tasks(player))
        self._keep_findings(self._unmet)
        total = len(tasks) + 1
        if self._plan.promises:
            self._told("promises", 0, total)
            for name, check in checks.items():
                self._run_check(name, check)
        if isinstance(self._truth, Truth):
            unit = self._truth.config.privacy.unit
            player.is_checked = are_promises_kept(self._file.findings, unit)
        if player.is_checked:
            closed = [task for task in tasks if has_closed_form(task.attack.question)]
            tasks = [task for task in tasks if task not in closed]
            tasks += self._play_all(player, closed, leave_measured=True)
        if tasks and defended:
            self._told("positive control: the run without its defences", 0, total)
            player.control = self._run_control(control, max(task.attack.rounds for task in tasks))
        self._play_all(player, tasks)
        self._cover_rest()
        self._file.close(self._result.scores)
        self._result.findings = self._file.told
        return self._result

    def _list_tasks(self, player: Player) -> Iterator[Task]:
        """Yield the attacks to run. Attacks whose needs are not met go to `_unmet`."""
        for name, error in self._plan.broken.items():
            self._keep_failure(name, "-", error)
        for attack in self._plan.attacks:
            reason = self._truth.spoken.unmet_need(attack)
            if reason is not None:
                self._unmet.append(player.unmet_finding(Task(attack, "-"), reason))
                continue
            chosen = list(adversaries_of(self._plan, attack))
            if not chosen and self._plan.only:
                whose = " or ".join(sorted(attack.adversaries))
                for place in self._plan.adversaries:
                    told = f"it is mounted by {whose}"
                    self._unmet.append(player.unmet_finding(Task(attack, place), told))
            for adversary in chosen:
                yield from self._applicable_task(player, Task(attack, adversary))

    def _applicable_task(self, player: Player, task: Task) -> Iterator[Task]:
        try:
            seen = player.view(self._truth, task.adversary)
            reason = task.attack.applies_to(seen)
        except CannotAttack as error:
            reason = str(error)
        except Exception as error:
            self._keep_failure(task.attack.name, task.adversary, error)
            return
        if reason is None:
            yield task
        else:
            kind = self._unmet_kind(task, seen)
            self._unmet.append(player.unmet_finding(task, reason, kind))

    def _unmet_kind(self, task: Task, seen: View) -> Unmet:
        """Return `not_asked` where the attack lacks the network's code alone, which the auditor of
        a recording left out."""
        if not isinstance(self._truth, ForeignTruth) or seen.function is not None:
            return "does_not_apply"
        given = replace(seen, function=lambda weights, samples: samples)
        return "not_asked" if task.attack.applies_to(given) is None else "does_not_apply"

    def _run_check(self, name: str, make: Callable[[], Iterable[Finding]]) -> None:
        """Run a check and replace all its earlier findings. The check may have others now, or
        none."""
        for _, found in side_by_side(lambda _: list(make()), [name], 1, self._seconds):
            if isinstance(found, Exception):
                found = [self._make_failure(name, "-", found)]
            self._file.add(found, check=name)

    def _run_control(self, make: Callable[[int], Audited | None], rounds: int) -> Audited | None:
        name, control_run, failed = "positive_control", None, []
        try:
            control_run = make(rounds)
        except Exception as error:
            failed = [self._make_failure(name, "-", error)]
        self._file.add(failed, check=name)
        return control_run

    def _play_all(
        self, player: Player, tasks: list[Task], *, leave_measured: bool = False
    ) -> list[Task]:
        """Play, and return the tasks that were left: those that need a control, where asked for."""
        left = []
        # Attacks on noise divide by zero and fail to converge as a matter of course.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            played = side_by_side(player.play, tasks, self._plan.jobs, self._seconds)
            for number, (task, outcome) in enumerate(played, 1):
                if isinstance(outcome, Exception):
                    self._keep_failure(task.attack.name, task.adversary, outcome)
                elif (
                    leave_measured
                    and outcome[0].gain is not None
                    and outcome[0].basis == "measured"
                ):
                    left.append(task)
                else:
                    finding, scores = outcome
                    self._keep_findings([finding])
                    self._result.scores |= scores
                    if finding.failed:
                        self._result.failed.append((finding.attack, finding.because))
                self._told(task.attack.name, number, len(tasks) + 1)
        return left

    def _keep_failure(self, attack: str, adversary: str, error: Exception) -> None:
        self._keep_findings([self._make_failure(attack, adversary, error)])

    def _make_failure(self, attack: str, adversary: str, error: Exception) -> Finding:
        if isinstance(error, TookTooLong):
            reason = f"{error} (audit.attack_seconds)"
        else:
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        self._result.failed.append((attack, reason))
        known = [found for found in self._plan.attacks if found.name == attack]
        cells = cells_of(known[0], adversary) if known else ()
        failed = _failed_finding(self._truth.method_name, attack, adversary, reason)
        return failed.model_copy(update={"cells": cells})

    def _keep_findings(self, findings: Iterable[Finding]) -> None:
        self._file.add(findings)

    def _cover_rest(self) -> None:
        """Add findings about everything that no stored finding covers, over all that this folder
        was asked."""
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
        asked = {(f.attack, f.adversary) for f in self._file.findings}
        self._file.replace_coverage(
            [
                *unread_findings(self._truth.spoken, read, method),
                *untaken_findings(whose, method),
                *not_asked(self._truth.spoken, asked, method),
            ]
        )


def _failed_finding(method: str, attack: str, adversary: str, reason: str) -> Finding:
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
