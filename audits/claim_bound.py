"""The bound that a run's claim gives, once its promises were checked."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attacks.base import AnyAttack
from audits.closed_form import bound_of_claim
from audits.findings.record import Finding, Verdict
from audits.games.base import BinaryGame, Game
from audits.truth import Truth
from securefg.privacy.defence import Defence, NoisyUpload
from securefg.protocol.meanings import Answers
from securefg.runs.epsilons import ANSWERS, AT_HOME, EARLIER
from securefg.settings.privacy import Unit

UNITS: tuple[Unit, ...] = ("client", "row", "node", "edge", "features")
ASKED: dict[str, Unit] = {
    "edge": "edge",
    "node": "node",
    "node with its edges": "node",
    "label of a node": "node",
}
"""By the unit of a game, the claim that bounds it."""


def are_promises_kept(findings: Sequence[Finding], unit: Unit) -> bool:
    """Return whether the noise may be relied on: its checks were made, none broke off, and none
    found a violation or could not have found one at the unit that the noise is sized for."""
    checks = [f for f in findings if f.check and f.check != "positive_control"]
    other = [name for name in UNITS if name != unit]
    open_ = [
        f for f in checks if f.failed or (f.verdict is Verdict.INCONCLUSIVE and f.unit not in other)
    ]
    broken = any(f.verdict is Verdict.VIOLATION for f in findings)
    noise_checked = {f.check for f in checks} >= {"mechanisms", "recorded", "books", "influence"}
    return noise_checked and not broken and not open_


def bound_of_claims(truth: Truth, attack: AnyAttack, game: Game) -> float | None:
    """Return the largest AUC above chance that the run's claim leaves for one unit of the game.

    None where no claim speaks of it: for other metrics, for attacks that read answers, which are
    computed from private data after the noise, and for noise that is not Gaussian or nearly so.
    A claim that hangs on a node's links is taken for the node with most of them. A label changes
    by removing its node and adding it again, unless the claim covers changes.
    """
    unit, rules = ASKED.get(game.unit), truth.experiment.policy.rules.values()
    claim = None if unit is None else truth.folder.summary().epsilon.get(unit)
    if claim is None or not isinstance(game, BinaryGame) or _reads_answers(attack):
        return None
    beside = set(claim.not_covered) - {ANSWERS, AT_HOME, EARLIER}
    if claim.epsilon is None or not claim.private or claim.given or beside:
        return None
    if not all(_is_gaussian(rule) for rule in rules):
        return None
    by_links = [one.epsilon for one in claim.by_links if one.epsilon is not None]
    if len(by_links) < len(claim.by_links):
        return None
    is_change = game.unit == "label of a node" and claim.relation != "removed, added or changed"
    return bound_of_claim(
        max([claim.epsilon, *by_links]),
        claim.delta,
        2 if is_change else 1,
        discrete=any(rule.accounting == "zcdp" for rule in rules),
    )


def _is_gaussian(rule: Defence) -> bool:
    return isinstance(rule, NoisyUpload) and rule.law(torch.Size([1])).is_gaussian


def _reads_answers(attack: AnyAttack) -> bool:
    wanted = [need if isinstance(need, tuple) else (need,) for need in attack.needs]
    return any(isinstance(one, Answers) for needs in wanted for one in needs)
