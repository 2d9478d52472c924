"""The verdict rules, in one place. A figure that was not measured counts as failed.

The null control is off chance if the attack gains over the prior with every message made
meaningless (`audits.blind`), or if its guess gains on permuted truth.

| the null control | gain here, interval | the same attack, defence off | verdict |
|---|---|---|---|
| off chance | any | any | INCONCLUSIVE: the measurement is not sound |
| at chance, or not computed | lower end above 0, at least the smallest gain | any | LEAK |
| at chance, or not computed | lower end above 0, and the most exposed stand out | any | LEAK |
| at chance, or not computed | lower end above 0, below the smallest gain | any | TRACE |
| not computed | reaches 0 | any | INCONCLUSIVE |
| at chance | reaches 0 | any, with noise that can be drawn again left on | INCONCLUSIVE |
| at chance | reaches 0 | not there, or this very run | INCONCLUSIVE: no power was shown |
| at chance | reaches 0 | reaches 0, or is under the floor | INCONCLUSIVE: no power was shown |
| at chance | one number, without spread | works | INCONCLUSIVE: nothing was measured |
| at chance | reaches the smallest gain, or the gain there | works | INCONCLUSIVE: it could hide |
| at chance | stays below both, and the most exposed stand out | works | INCONCLUSIVE |
| at chance | stays below both | works | NOT_DETECTED |

The smallest gain that matters is `audit.leak_threshold`, by default `SMALLEST` for the metric. A
gain of `LARGEST_TRACE` is a leak whatever the setting.

A gain that the law of the noise gives (`audits.closed_form`) needs no control and no sampling:

| mean gain, or that of the most exposed target | verdict |
|---|---|
| at least the smallest gain | LEAK |
| below it | TRACE |

VIOLATION is for promises alone: at a family-wise level over all checks of an audit, and confirmed
on fresh trials (`audits.mechanisms.results`).
"""

from __future__ import annotations

from dataclasses import dataclass

from audits.closed_form import ClosedForm
from audits.findings.record import Verdict
from securefg.foundation.interval import Interval

SMALLEST = {"AUC": 0.05, "share": 0.05, "cosine": 0.02}
"""By the first word of a metric. An AUC of .05 above chance decides one comparison in twenty that
was a coin toss before. A share of .05 is one target in twenty. Cosines of unrelated rows lie near
0 in many dimensions, so a smaller one matters."""
LARGEST_TRACE = 0.1
"""A larger gain is a leak, however large a gain the setting asks for."""
ROUNDING = 1e-6
"""An interval that lies this near to 0 whole is arithmetic: the guess is the prior, turned or
scaled, which is no leak, and its spread is no spread."""
SHOWN = 0.0005
"""A smaller gain is 0.000 in print."""
STANDS_OUT = 0.002
"""The ten most exposed targets stand out if chance puts them there this rarely. All of ten by a
fair coin are rarer."""


def smallest_gain(metric: str, setting: float | None) -> float:
    """Return the smallest gain that matters: as set, or the default for this kind of metric."""
    if setting is not None:
        return setting
    return SMALLEST.get(metric.partition(" ")[0], min(SMALLEST.values()))


@dataclass(frozen=True)
class Evidence:
    """A list of what is known of one attack on one run, or on several runs together.

    control   its gain with the defence off, or None if it was not or could not be played there
    own       the run has no defence, so that there is no control but itself
    floor     the gain that the attack must reach with the defence off
    null_failed  why the attack made no guess from meaningless messages, empty if it did
    noise_left  fields whose noise the adversary can draw again, and that still have it
    smallest  the smallest gain that matters
    tail      the chance of ten targets as exposed as the ten most exposed, or None if not known
    """

    value: Interval
    gain: Interval
    null_at_chance: bool
    control: Interval | None
    own: bool
    floor: float
    smallest: float = min(SMALLEST.values())
    noise_left: tuple[str, ...] = ()
    null_failed: str = ""
    tail: float | None = None

    @property
    def stands_out(self) -> bool:
        """Return whether the most exposed targets stand out beyond chance."""
        return self.tail is not None and self.tail < STANDS_OUT


def judge_gain(evidence: Evidence) -> tuple[Verdict, str]:
    """Return the verdict on a measured gain, and why."""
    gain = evidence.gain
    if not evidence.null_at_chance:
        return (
            Verdict.INCONCLUSIVE,
            f"{_figures_text(evidence)}, but the null control is off chance: the attack gains as "
            "much without the run's messages, so the measurement is not sound",
        )
    failed = (
        f"; the null control was not computed: on meaningless messages the attack breaks off "
        f"({evidence.null_failed})"
        if evidence.null_failed
        else ""
    )
    if gain.low > 0 and not _is_rounding(gain):
        verdict, why = _above_zero(evidence)
        return verdict, why + failed
    silent = _judge_silence(evidence)
    if failed:
        return Verdict.INCONCLUSIVE, silent[1] + failed
    return silent


def judge_computed(form: ClosedForm, smallest: float) -> tuple[Verdict, str]:
    """Return the verdict on a gain that follows from the law of the noise, and why."""
    law_text = (
        f"the noise leaves a gain of {form.gain.value:+.4f} on average and at most "
        f"{form.most:+.4f} for the most exposed target"
    )
    least = min(smallest, LARGEST_TRACE)
    if form.gain.value >= least or form.most >= least:
        return Verdict.LEAK, f"{law_text}; gains from {least:g} on matter (audit.leak_threshold)"
    return Verdict.TRACE, f"{law_text}, below {least:g} (audit.leak_threshold)"


def _above_zero(evidence: Evidence) -> tuple[Verdict, str]:
    figures_text, least = _figures_text(evidence), min(evidence.smallest, LARGEST_TRACE)
    if evidence.gain.value >= least:
        return Verdict.LEAK, figures_text
    if evidence.stands_out:
        return Verdict.LEAK, f"{figures_text}, and {_exposed_text(evidence)}"
    return Verdict.TRACE, f"{figures_text}: less than {least:g} (audit.leak_threshold)"


def _judge_silence(evidence: Evidence) -> tuple[Verdict, str]:
    """Return what a gain that reaches 0 says."""
    gain, hidden = evidence.gain, _could_hide(evidence.gain)
    powerless = _powerless_reason(evidence, hidden)
    if powerless:
        return Verdict.INCONCLUSIVE, powerless
    assert evidence.control is not None
    off = _with_the_defence_off(evidence.control)
    if _is_rounding(gain) or gain.low == gain.high:
        return (
            Verdict.INCONCLUSIVE,
            f"{off}; here it did the same with every target, so that its gain has no "
            "spread, and nothing was measured",
        )
    if gain.high >= evidence.smallest:
        return (
            Verdict.INCONCLUSIVE,
            f"{off}; {hidden}, and gains from {evidence.smallest:g} on matter "
            "(audit.leak_threshold)",
        )
    if gain.high >= evidence.control.value:
        return Verdict.INCONCLUSIVE, f"{off}; {hidden}, which is as much as without the defence"
    if evidence.stands_out:
        return Verdict.INCONCLUSIVE, f"{off}; no gain on average, but {_exposed_text(evidence)}"
    return (
        Verdict.NOT_DETECTED,
        f"no gain of {evidence.smallest:g} or more over the prior ({gain.low:+.3f} to "
        f"{gain.high:+.3f}); {off}",
    )


def _figures_text(found: Evidence) -> str:
    gain = found.gain
    return (
        f"{found.value.value:.3f}, {_with_sign(gain.value)} over the prior ("
        f"{_with_sign(gain.low)} to {_with_sign(gain.high)})"
    )


def _with_sign(value: float) -> str:
    """Return three decimals of a number, or two digits if these would be 0.000."""
    return f"{value:+.3f}" if abs(value) >= SHOWN or value == 0 else f"{value:+.2g}"


def _exposed_text(found: Evidence) -> str:
    return (
        f"the ten most exposed targets stand out: chance puts them there with a probability of "
        f"{found.tail:.2g}"
    )


def _could_hide(gain: Interval) -> str:
    if gain.high < SHOWN:
        return "the attack found nothing, and the test is too weak to be sure"
    return f"a gain of up to {gain.high:+.3f} could hide here"


def _powerless_reason(evidence: Evidence, hidden: str) -> str:
    """Return why silence says nothing: noise was left on, or the attack was not shown to work. The
    text is empty otherwise."""
    gain, control = evidence.gain, evidence.control
    if evidence.noise_left:
        return (
            f"the noise on {', '.join(evidence.noise_left)} can be drawn again from the public "
            f"seed, and the attack did not take it off; {hidden}"
        )
    if evidence.own:
        return (
            f"no gain ({gain.low:+.3f} to {gain.high:+.3f}), and nothing defends this run: it "
            f"cannot show that the attack works; {hidden}"
        )
    if control is None:
        return (
            f"no positive control: the attack was not shown to work with the defence off; {hidden}"
        )
    if control.low <= 0 or control.value < evidence.floor:
        return f"{_with_the_defence_off(control)}, too little to show that it works; {hidden}"
    return ""


def _is_rounding(gain: Interval) -> bool:
    return max(abs(gain.low), abs(gain.high)) <= ROUNDING


def _with_the_defence_off(control: Interval) -> str:
    spread = f"({control.low:+.3f} to {control.high:+.3f})"
    return f"with the defence off it gains {control.value:+.3f} {spread}"
