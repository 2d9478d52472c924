"""The page of all attacks, made from their own declarations: `python -m attacks.page`."""

from __future__ import annotations

from attacks import get_attack, shipped
from attacks.base import Attack, in_words

OPENING = """\
# All attacks

Made from the attacks' own declarations by `python -m attacks.page > docs/attacks.md`; a test
compares. For every attack: who mounts it, what it needs, what it means for a person, and what stops
it. How strong each was on which run is on the pages of [the server](adversaries/server.md),
[other clients](adversaries/clients.md) and [outsiders](adversaries/outsider.md); how an attack is
judged is in [from run to verdict](audit.md). What stops an attack here stops this attack: a
stronger one may find what it misses.
"""
PLACES = {
    "server": "the server",
    "client": "other clients",
    "wire": "whoever taps the wire",
    "outsider": "whoever gets the released model",
}


def page() -> str:
    """The whole page."""
    attacks = [get_attack(name) for name in shipped()]
    return "\n".join([OPENING, *map(paragraph, attacks)])


def paragraph(attack: Attack) -> str:
    """One attack: a heading and its paragraph."""
    who = " or ".join(PLACES[kind] for kind in sorted(attack.adversaries))
    reads = "; ".join(dict.fromkeys(map(in_words, (*attack.needs, *attack.hears))))
    return (
        f"## `{attack.name}`\n\n"
        f"{_sentence(attack.summary)} Mounted by {who}; it reads {reads}. "
        f"**Needs:** {attack.assumes}. **For a person:** it shows {attack.exposes}. "
        f"**Stopped by:** {attack.stopped_by}. "
        f"Without defences: {attack.expected}. Source: {attack.source}.\n"
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


if __name__ == "__main__":
    print(page(), end="")
