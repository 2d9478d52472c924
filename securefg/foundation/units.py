"""Numbers as people read them. A bound is only ever rounded up."""

from __future__ import annotations

import math

_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(count: float) -> str:
    """Return a size in binary units: 1,024 bytes are 1 KiB."""
    power = 0
    while power < len(_PREFIXES) - 1 and round(count / 1024**power, 1) >= 1024:
        power += 1
    return f"{significant(count / 1024**power)} {_PREFIXES[power]}"


def significant(value: float) -> str:
    """Return three digits or the whole part, without zeros at the end: 1234 -> 1,234, 0.50 ->
    0.5."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None) -> str:
    """Return a share as a percentage with one digit, or n/a."""
    return "n/a" if share is None else f"{100 * share:.1f}%"


def number(count: int) -> str:
    """Return a count with commas."""
    return f"{count:,}"


def plural(count: int, word: str) -> str:
    """Return a count and its word, with an s unless it is one."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def seconds_text(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def epsilon_text(epsilon: float | None) -> str:
    """Return three digits, rounded up: the page never promises more than the accountant did."""
    if epsilon is None:
        return "∞"
    if epsilon == 0:
        return "0"
    epsilon = max(epsilon, 1e-12)
    decimals = max(0, 2 - math.floor(math.log10(epsilon)))
    # The slack keeps 8.000000000000001, an accountant's 8, from being shown as 8.01.
    raised = math.ceil(epsilon * 10**decimals - 1e-6) / 10**decimals
    return f"{raised:,.{decimals}f}"


def delta_text(delta: float) -> str:
    """Return a delta as people write it, such as 1e-5."""
    return f"{delta:g}".replace("e-0", "e-")


def span_words(low: int, high: int) -> str:
    """Return both ends of a range, or the one value."""
    return number(low) if low == high else f"{low:,}–{high:,}"


def degree_range(index: int) -> str:
    """Return a bin of degrees in words. Bin 0 is degree 0, and bin b is 2^(b-1) to 2^b - 1."""
    return "0" if index == 0 else span_words(2 ** (index - 1), 2**index - 1)
