"""The page of all attacks, made from their own declarations: `python -m attacks.page`."""

from __future__ import annotations

from collections.abc import Iterable

from attacks import families, get_active, get_attack, load_active_attacks, load_shipped_attacks
from attacks.active.base import ActiveAttack
from attacks.base import AnyAttack, in_words

OPENING = """\
# All attacks

*For auditors and researchers who want to know what an attack needs, shows and is stopped by.*

Attacks are grouped by the secret that they read. `securefg audit RUN --only links` runs one group.
Each paragraph says who mounts the attack, which messages it reads, what it needs to know, what it
shows about a person, what stops it, how strong it is without defences, and where it comes from.
A defence that stops one attack may not stop a stronger attack. In lists, · separates the items.

- Figures by run: [the server](../explanations/adversaries/server.md),
  [other clients](../explanations/adversaries/clients.md),
  [outsiders](../explanations/adversaries/outsider.md),
  [measured attacks](../research/attacks_measured.md)
- Rules: [from run to verdict](../howto/audit.md)

`python -m attacks.page > docs/reference/attacks.md` makes this page, and a test compares both.
"""
LIARS = """\
## Servers that lie

`securefg rehearse CONFIG` plays these attacks against a throw-away federation of real clients
([how](../howto/audit.md#servers-that-lie)). An audit does not.
"""
CLOSING = """\
Next: [measured attacks](../research/attacks_measured.md)
"""
PLACES = {
    "server": "the server",
    "client": "other clients",
    "wire": "eavesdroppers",
    "outsider": "people who get the model",
}


def write_page() -> str:
    """Return the whole page."""
    lying = [attack_paragraph(get_active(name)) for name in load_active_attacks()]
    return "\n".join([OPENING, _index_table(), *_grouped_paragraphs(), LIARS, *lying, CLOSING])


def attack_paragraph(attack: AnyAttack) -> str:
    """Return the heading of an attack and its paragraph."""
    who = " or ".join(PLACES[kind] for kind in sorted(attack.adversaries))
    reads = " · ".join(dict.fromkeys(map(in_words, (*attack.needs, *attack.hears))))
    lines = [
        f"### `{attack.name}`\n",
        f"{_to_sentence(attack.summary)}\n",
        f"- **By** {who}, **from** {reads}",
        f"- **Needs** {_list_clauses(attack.assumes)}",
        f"- **Shows** {_list_clauses(attack.exposes)}",
        f"- **Stopped by** {_list_clauses(attack.stopped_by)}",
        *_noticed_line(attack),
        f"- **Undefended** {_list_clauses(attack.expected)}",
        f"- **Source** {_list_clauses(attack.source)}\n",
    ]
    return "\n".join(lines)


def _index_table() -> str:
    rows = [f"| {_group_title(names)} | {_attack_links(names)} |" for names in _attack_groups()]
    rows.append(f"| Servers that lie | {_attack_links(load_active_attacks())} |")
    return "\n".join(["| secret | attacks |", "|---|---|", *rows, ""])


def _grouped_paragraphs() -> list[str]:
    parts: list[str] = []
    for names in _attack_groups():
        parts.append(f"## {_group_title(names)}\n")
        parts += [attack_paragraph(get_attack(name)) for name in names]
    return parts


def _attack_groups() -> list[list[str]]:
    """Return the names of all attacks, group by group, those without a secret last."""
    found = [sorted(names) for _, names in sorted(families().items())]
    grouped = {name for names in found for name in names}
    rest = [name for name in load_shipped_attacks() if name not in grouped]
    return [*found, rest] if rest else found


def _group_title(names: list[str]) -> str:
    secret = get_attack(names[0]).question.secret
    return f"{secret.title} (`{secret.family}`)" if secret else "Other secrets"


def _attack_links(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}](#{name})" for name in names)


def _noticed_line(attack: AnyAttack) -> list[str]:
    if not isinstance(attack, ActiveAttack):
        return []
    return [f"- **A client could notice** {_list_clauses(attack.noticed)}"]


def _list_clauses(words: str) -> str:
    """Return the clauses of a declaration, which a semicolon separates, for a page."""
    return words.replace("; ", " · ")


def _to_sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


if __name__ == "__main__":
    print(write_page(), end="")
