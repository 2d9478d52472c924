"""The page of all attacks, made from their own declarations: `python -m attacks.page`."""

from __future__ import annotations

from attacks import active, get_active, get_attack, shipped
from attacks.active.base import ActiveAttack
from attacks.base import AnyAttack, in_words

OPENING = """\
# All attacks

Made from the attacks' own declarations by `python -m attacks.page > docs/attacks.md`; a test
compares. For every attack: who mounts it, what it needs, what it means for a person, and what stops
it. How strong each was on which run is on the pages of [the server](adversaries/server.md),
[other clients](adversaries/clients.md) and [outsiders](adversaries/outsider.md); how an attack is
judged is in [from run to verdict](audit.md). What stops an attack here stops this attack: a
stronger one may find what it misses.
"""
LIARS = """\
# Servers that lie

What follows is played by `securefg rehearse CONFIG` alone, against a throw-away federation of real
clients ([how](audit.md#servers-that-lie)).
"""
PLACES = {
    "server": "the server",
    "client": "other clients",
    "wire": "whoever taps the wire",
    "outsider": "whoever gets the released model",
}


def page() -> str:
    """The whole page."""
    passive = [paragraph(get_attack(name)) for name in shipped()]
    lying = [paragraph(get_active(name)) for name in active()]
    return "\n".join([OPENING, *passive, LIARS, *lying])


def paragraph(attack: AnyAttack) -> str:
    """One attack: a heading and its paragraph."""
    who = " or ".join(PLACES[kind] for kind in sorted(attack.adversaries))
    reads = "; ".join(dict.fromkeys(map(in_words, (*attack.needs, *attack.hears))))
    return (
        f"## `{attack.name}`\n\n"
        f"{_sentence(attack.summary)} Mounted by {who}; it reads {reads}. "
        f"**Needs:** {attack.assumes}. **For a person:** it shows {attack.exposes}. "
        f"**Stopped by:** {attack.stopped_by}. "
        f"{_noticed(attack)}Without defences: {attack.expected}. Source: {attack.source}.\n"
    )


def _noticed(attack: AnyAttack) -> str:
    if not isinstance(attack, ActiveAttack):
        return ""
    return f"**A client could notice:** {attack.noticed}. "


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


if __name__ == "__main__":
    print(page(), end="")
