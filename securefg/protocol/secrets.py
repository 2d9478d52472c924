"""The secrets that attacks are about: a row each in the table of who learns what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Secret:
    """A kind of private fact that a question asks for.

    code    its part of a stable code, such as SFG-LINK-SERVER
    family  the word that selects its attacks: `securefg audit RUN --only links`
    title   its row in the table
    learns  what follows "the server learns" in a sentence, in words that every game of it supports
    """

    code: str
    family: str
    title: str
    learns: str


HOLDER: Final = Secret(
    "HOLDER", "holders", "Which client holds a node", "which client holds a node"
)
LABEL: Final = Secret("LABEL", "labels", "A node's label on record", "the labels on record")
MEMBER: Final = Secret(
    "MEMBER", "membership", "Whose label was trained on", "whose label was trained on"
)
LINK: Final = Secret("LINK", "links", "Who is connected to whom", "who is connected to whom")
RECORD: Final = Secret("RECORD", "records", "What a record says", "what records say")
UPLOAD: Final = Secret(
    "UPLOAD", "uploads", "One upload, out of a sum", "single uploads out of sums"
)
IDENTITY: Final = Secret(
    "IDENTITY", "identity", "Which listed record is whose", "which record of a list is whose"
)
SENSITIVE: Final = Secret(
    "SENSITIVE", "sensitive", "A sensitive attribute", "the sensitive attribute"
)
GROUP: Final = Secret(
    "GROUP", "groups", "What one client's group is like", "what one client's group is like"
)
MODEL: Final = Secret("MODEL", "models", "A copy of the model", "a copy of the model")

SECRETS: Final = (HOLDER, LABEL, MEMBER, LINK, RECORD, UPLOAD, IDENTITY, SENSITIVE, GROUP, MODEL)
"""In the order of the table's rows."""

PLACES: Final = {"server": "SERVER", "client": "CLIENT", "outsider": "OUTSIDER", "wire": "WIRE"}
"""The part of a code that stands for the adversary, by kind."""


def find_secret(code: str) -> Secret | None:
    """Return the secret of a code, or None for a code from outside the package."""
    return next((secret for secret in SECRETS if secret.code == code), None)


def cell_code(secret: str, kind: str) -> str:
    """Return the code of one cell of the table, such as LINK-SERVER."""
    return f"{secret}-{PLACES[kind]}"
