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


NEARLY_ALL = 0.9


def floor_within(floor: float, prior: float, smallest: float = SMALLEST_GAIN) -> float:
    """The gain that shows an attack at work: its floor; or nearly all that the prior leaves to
    gain, where that is less, as of links that the released model's answers tell almost whole. A
    gain too small to matter shows nothing. `prior` is the smaller of the run's and the control's:
    what was shown where little was left says little of where there is more."""
    left = 1 - prior
    return min(floor, max(NEARLY_ALL * left, smallest)) if 0 < left < 1 else floor


@dataclass(frozen=True)
class Evidence:
    """What is known of one attack on one run.

    control   its gain with the defence off; None where it was not or could not be played there
    own       the run has no defence, so that there is no control but itself
    floor     the gain that the attack must reach with the defence off (`floor_within`)
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
    gain, control = found.gain, found.control
    if not found.null_at_chance:
        return Verdict.INCONCLUSIVE, (
            "the null control is off chance: the attack gains as much without the run's messages, "
            "so the measurement is not sound"
        )
    if found.null_failed:
        return Verdict.INCONCLUSIVE, (
            f"{found.value.value:.3f}, {gain.value:+.3f} over the prior ({gain.low:+.3f} to "
            f"{gain.high:+.3f}), but the null control was not made: on meaningless messages the "
            f"attack breaks off ({found.null_failed})"
        )
    same = max(abs(gain.low), abs(gain.high)) <= ROUNDING
    if gain.low > 0 and not same:
        return (
            Verdict.LEAK,
            f"{found.value.value:.3f}, {gain.value:+.3f} over the prior "
            f"({gain.low:+.3f} to {gain.high:+.3f})",
        )
    hidden = f"a gain of up to {max(gain.high, 0):+.3f} could hide here"
    if found.noise_left:
        return (
            Verdict.INCONCLUSIVE,
            f"the noise on {', '.join(found.noise_left)} can be drawn again from the public seed, "
            f"and the attack did not take it off; {hidden}",
        )
    if found.own:
        return (
            Verdict.INCONCLUSIVE,
            f"no gain ({gain.low:+.3f} to {gain.high:+.3f}), and nothing defends this run: it "
            f"cannot show that the attack works; {hidden}",
        )
    if control is None:
        return (
            Verdict.INCONCLUSIVE,
            f"no positive control: the attack was not shown to work with the defence off; {hidden}",
        )
    spread = f"({control.low:+.3f} to {control.high:+.3f})"
    off = f"with the defence off it gains {control.value:+.3f} {spread}"
    if control.low <= 0 or control.value < found.floor:
        return Verdict.INCONCLUSIVE, f"{off}, too little to show that it works; {hidden}"
    if same or gain.low == gain.high:
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
    if gain.high >= control.value:
        return Verdict.INCONCLUSIVE, f"{off}; {hidden}, which is as much as without the defence"
    return (
        Verdict.NOT_DETECTED,
        f"no gain of {found.smallest:g} or more over the prior ({gain.low:+.3f} to "
        f"{gain.high:+.3f}); {off}",
    )
