"""What was tested, what was not, and what the adversary was assumed to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from securefg.reports.curve.words import adversary_words, attack_words
from securefg.run.findings import Finding


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
        not_tested=tuple(dict.fromkeys(f"{_named(f)}: {f.because}" for f in left))
        or (() if found else ("nothing was tested: the run was not audited",)),
        assumed=tuple(sorted(assumed)),
    )


def _named(one: Finding) -> str:
    by = "" if one.adversary == "-" else f" by {adversary_words(one.adversary)}"
    return f"{attack_words(one.attack)}{by}"
