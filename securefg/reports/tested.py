"""What was tested, what was not, and what the adversary was assumed to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from securefg.reports.curve.words import adversary_words, attack_words
from securefg.run.findings import Finding

NOT_SENT = ("not run: no upload or answer of this run", "not run: nothing that the server sends")
UNREAD, UNTAKEN = "unread_field", "untaken_place"


@dataclass(frozen=True)
class Tested:
    """Sentences, each complete by itself."""

    tested: tuple[str, ...]
    not_tested: tuple[str, ...]
    assumed: tuple[str, ...]


def tested(findings: Sequence[Finding] | None) -> Tested:
    found = findings or ()
    made = [f for f in found if f.measured and not f.failed]
    left = [f for f in found if not f.measured or f.failed]
    assumed = {
        f"{attack_words(f.attack)}: {text}" for f in made for text in f.assumptions if f.gain
    }
    return Tested(
        tested=tuple(dict.fromkeys(_named(f) for f in made)),
        not_tested=_by_reason(left)
        or (() if found else ("nothing was tested: the run was not audited",)),
        assumed=tuple(sorted(assumed)),
    )


def _by_reason(left: Sequence[Finding]) -> tuple[str, ...]:
    """What was left out, with the reason; all that needs what the run does not send in one line,
    and all fields that nobody read in one."""
    absent = [attack_words(f.attack) for f in left if f.because.startswith(NOT_SENT)]
    unread = [f.metric for f in left if f.attack == UNREAD]
    others = [f for f in left if not f.because.startswith(NOT_SENT) and f.attack != UNREAD]
    said = [f.because if f.attack == UNTAKEN else f"{_named(f)}: {f.words}" for f in others]
    if absent:
        said.append(f"attacks on what this run does not send: {', '.join(dict.fromkeys(absent))}")
    if unread:
        said.append(f"read by no attack that was run: {', '.join(dict.fromkeys(unread))}")
    return tuple(dict.fromkeys(said))


def _named(one: Finding) -> str:
    by = "" if one.adversary == "-" else f" by {adversary_words(one.adversary)}"
    return f"{attack_words(one.attack)}{by}"
