"""The privacy verdict for every unit, in a sentence, and what it means for an attacker."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from securefg.foundation.units import delta_text, epsilon_text
from securefg.privacy.accountants import steps_for
from securefg.reports.results import Booked, Results
from securefg.runs.summary import ClaimedEpsilon
from securefg.settings.privacy import Unit


def chance_to_distinguish(
    booked: tuple[Booked, ...], unit: Unit, epsilon: float, delta: float
) -> float:
    """Return the largest probability with which anyone who sees all uploads is right about which of
    two equally likely neighbours they came from.

    Gaussian releases compose to mu = sqrt(sum 1/z^2), which bounds it by Phi(mu / 2) (Dong et al.
    2019). Any (epsilon, delta) bounds it by (e^epsilon + delta) / (e^epsilon + 1) (Kairouz et al.
    2015). Each field counts as often as for the client that released it most.
    """
    shrunk = math.exp(-epsilon)
    general = (1 + delta * shrunk) / (1 + shrunk)
    steps, unbounded = steps_for({b.mechanism: b.most for b in booked}, unit)
    gaussian = all(
        b.mechanism.accounting == "gaussian" and b.mechanism.noise_multiplier is not None
        for b in booked
    )
    if unbounded or not gaussian or any(step.sampling < 1 for step in steps):
        return general
    from scipy.special import ndtr  # loaded where it is used

    mu = math.sqrt(sum(step.count / step.noise_multiplier**2 for step in steps))
    return min(general, float(ndtr(mu / 2)))


Tone = Literal["open", "void", "weak", "bounded", "silent"]

# From here on a bound is shown as one that hardly protects.
WEAK = 0.99

_COVERS: dict[Unit, str] = {
    "client": "all that one client sent in the whole run",
    "row": "one row of what a client sent, in all rounds together; it is no person, who moves many",
    "node": "one node's features, label and links, at every client that holds it, in all rounds",
    "edge": "one edge, at every client that holds it, in all rounds",
    "features": "one node's features, in all rounds; its links and labels are taken as known",
}


@dataclass(frozen=True)
class Verdict:
    """A claim for one unit.

    tone    open: no bound; void: the noise was seeded; weak: finite, and hardly a protection;
            bounded; silent: nothing private was sent
    fields  those that left without noise
    """

    unit: Unit
    covers: str
    tone: Tone
    symbol: str
    sentence: str
    meaning: str
    fields: tuple[str, ...]


def list_verdicts(results: Results) -> tuple[Verdict, ...]:
    """Return the verdict of every unit's claim. Units that are open for the same fields share a
    verdict."""
    verdicts: list[Verdict] = []
    for unit, claim in results.summary.epsilon.items():
        verdict = _make_verdict(results, unit, claim)
        alike = next((v for v in verdicts if v.tone == "open" and v.fields == verdict.fields), None)
        if alike is not None and verdict.tone == "open":
            said = f"Epsilon per {unit}: infinite, by the same fields as per {alike.unit}."
            verdict = replace(verdict, sentence=said, fields=())
        verdicts.append(verdict)
    return tuple(verdicts)


def _make_verdict(results: Results, unit: Unit, claim: ClaimedEpsilon) -> Verdict:
    tone, chance = _claim_tone(results, unit, claim)
    return Verdict(
        unit=unit,
        covers=_COVERS[unit],
        tone=tone,
        symbol="void" if tone == "void" else f"ε = {epsilon_text(claim.epsilon)}",
        sentence=_claim_sentence(results, tone, unit, claim),
        meaning=_claim_meaning(unit, claim.relation, chance) if tone in ("bounded", "weak") else "",
        fields=claim.because,
    )


def _claim_tone(results: Results, unit: Unit, claim: ClaimedEpsilon) -> tuple[Tone, float]:
    """Return the tone, and the chance to tell two candidates apart."""
    if claim.epsilon is None:
        return "open", 1.0
    if not results.booked and claim.epsilon == 0:
        return "silent", 0.5
    if not results.summary.noise_protects:
        return "void", 1.0
    chance = chance_to_distinguish(results.booked, unit, claim.epsilon, claim.delta)
    return ("weak" if chance > WEAK else "bounded"), chance


def _claim_sentence(results: Results, tone: Tone, unit: Unit, claim: ClaimedEpsilon) -> str:
    about = claim.about(unit)
    beside = f" Not covered: {'; '.join(claim.not_covered)}." if claim.not_covered else ""
    bound = f"{epsilon_text(claim.epsilon)} at delta {delta_text(claim.delta)} per {unit}"
    if tone == "open":
        return f"Epsilon per {unit}: infinite. Sent or given without noise:"
    if tone == "silent":
        return "No private field left any client, so there is nothing to bound."
    if tone == "void":
        return (
            "The noise was seeded and protects nothing. With noise from the system, "
            f"epsilon = {bound} ({about}) would hold.{beside}"
        )
    return f"Epsilon = {bound}: {about}.{beside}"


def _claim_meaning(unit: Unit, relation: str, chance: float) -> str:
    """Return the claim's meaning in words, rounded up, as every bound on the page."""
    article = "an" if unit == "edge" else "a"
    asked = {
        "replaced": f"which of two candidates {article} {unit} is",
        "removed, added or changed": f"whether {article} {unit} was there, or was changed",
    }.get(relation, f"whether {article} {unit} was there")
    most = math.ceil(chance * 1000 - 1e-9) / 10
    start = "So large a bound hardly protects. It lets" if chance > WEAK else "It lets"
    return (
        f"{start} whoever sees all uploads be right about {asked}, if both are equally likely, "
        f"with a probability of up to {most:.1f}%."
    )
