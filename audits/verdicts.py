"""The verdict rules, in one place. Unknown is not met.

The null control is off chance where the attack gains over the prior with every message made
meaningless (`audits.blind`), or where its guess gains on permuted truth.

| the null control | gain here, interval | the same attack, defence off | verdict |
|---|---|---|---|
| off chance | any | any | INCONCLUSIVE: the measurement is not sound |
| not made: the attack breaks off on meaningless messages | any | any | INCONCLUSIVE |
| at chance | lower end above 0 | any | LEAK |
| at chance | reaches 0 | any; noise that the adversary can draw again is left on | INCONCLUSIVE |
| at chance | reaches 0 | not there, or this very run | INCONCLUSIVE: no power was shown |
| at chance | reaches 0 | reaches 0, or is under the floor | INCONCLUSIVE: no power was shown |
| at chance | one number, without spread | works | INCONCLUSIVE: nothing was measured |
| at chance | reaches the smallest gain, or the gain there | works | INCONCLUSIVE: it could hide |
| at chance | stays below both | works | NOT_DETECTED |

VIOLATION is for promises alone: at a family-wise level over all checks of an audit, and confirmed
on fresh trials (`audits.mechanisms.family`).
"""

from __future__ import annotations

from dataclasses import dataclass

from securefg.foundation.interval import Interval
from securefg.run.findings import Verdict

SMALLEST_GAIN = 0.05
ROUNDING = 1e-6
"""An interval that lies this near to 0 whole is arithmetic: the guess is the prior, turned or
scaled, which is no leak, and its spread is no spread."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one attack on one run.

    control   its gain with the defence off; None where it was not or could not be played there
    own       the run has no defence, so that there is no control but itself
    floor     the gain that the attack must reach with the defence off
    null_failed  why the attack made no guess from meaningless messages; empty where it did
    noise_left  fields whose noise the adversary can draw again, and that still have it
    smallest  the smallest gain that matters: silence means something below it alone
    """

    value: Interval
    gain: Interval
    null_at_chance: bool
    control: Interval | None
    own: bool
    floor: float
    smallest: float = SMALLEST_GAIN
    noise_left: tuple[str, ...] = ()
    null_failed: str = ""


def judge(found: Evidence) -> tuple[Verdict, str]:
    """The verdict, and why."""
    gain = found.gain
    unsound = _unsound(found)
    if unsound:
        return Verdict.INCONCLUSIVE, unsound
    if gain.low > 0 and not _is_rounding(gain):
        told = f"{found.value.value:.3f}, {gain.value:+.3f} over the prior"
        return Verdict.LEAK, f"{told} ({gain.low:+.3f} to {gain.high:+.3f})"
    hidden = f"a gain of up to {max(gain.high, 0):+.3f} could hide here"
    powerless = _powerless(found, hidden)
    if powerless:
        return Verdict.INCONCLUSIVE, powerless
    assert found.control is not None
    off = _with_the_defence_off(found.control)
    if _is_rounding(gain) or gain.low == gain.high:
        return (
            Verdict.INCONCLUSIVE,
            f"{off}; here it did the same with every target, so that its gain has no "
            "spread, and nothing was measured",
        )
    if gain.high >= found.smallest:
        return (
            Verdict.INCONCLUSIVE,
            f"{off}; {hidden}, and gains from {found.smallest:g} on matter (audit.smallest_gain)",
        )
    if gain.high >= found.control.value:
        return Verdict.INCONCLUSIVE, f"{off}; {hidden}, which is as much as without the defence"
    return (
        Verdict.NOT_DETECTED,
        f"no gain of {found.smallest:g} or more over the prior ({gain.low:+.3f} to "
        f"{gain.high:+.3f}); {off}",
    )


def _unsound(found: Evidence) -> str:
    """Why the null control forbids to say anything; empty where it does not."""
    gain = found.gain
    if not found.null_at_chance:
        return (
            "the null control is off chance: the attack gains as much without the run's messages, "
            "so the measurement is not sound"
        )
    if found.null_failed:
        return (
            f"{found.value.value:.3f}, {gain.value:+.3f} over the prior ({gain.low:+.3f} to "
            f"{gain.high:+.3f}), but the null control was not made: on meaningless messages the "
            f"attack breaks off ({found.null_failed})"
        )
    return ""


def _powerless(found: Evidence, hidden: str) -> str:
    """Why silence says nothing: noise was left on, or the attack was not shown to work; else
    empty."""
    gain, control = found.gain, found.control
    if found.noise_left:
        return (
            f"the noise on {', '.join(found.noise_left)} can be drawn again from the public seed, "
            f"and the attack did not take it off; {hidden}"
        )
    if found.own:
        return (
            f"no gain ({gain.low:+.3f} to {gain.high:+.3f}), and nothing defends this run: it "
            f"cannot show that the attack works; {hidden}"
        )
    if control is None:
        return (
            f"no positive control: the attack was not shown to work with the defence off; {hidden}"
        )
    if control.low <= 0 or control.value < found.floor:
        return f"{_with_the_defence_off(control)}, too little to show that it works; {hidden}"
    return ""


def _is_rounding(gain: Interval) -> bool:
    return max(abs(gain.low), abs(gain.high)) <= ROUNDING


def _with_the_defence_off(control: Interval) -> str:
    spread = f"({control.low:+.3f} to {control.high:+.3f})"
    return f"with the defence off it gains {control.value:+.3f} {spread}"
