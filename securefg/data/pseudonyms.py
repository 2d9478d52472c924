"""Keyed pseudonyms: organisations name shared customers alike without saying who they are.

A pseudonym is HMAC-SHA256 of the id under a key that the organisations share and the server does
not have, cut to 128 bits. What it hides: ids, from whoever lacks the key, even if every possible id
can be listed. What it tells whoever gets two lists: how many ids and which rows they share, and,
under one key, that a person of today is a person of yesterday. Whoever has the key can test any id.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from pathlib import Path

from securefg.foundation.errors import DataError

KEY_BYTES = 32
TELLS = (
    "how many customers any two organisations share, and which rows are theirs",
    "that two tables made under one key speak of the same person",
    "to whoever holds the key: whether any given id is in a table",
)
"""What pseudonyms tell whoever gets the tables; `securefg data pseudonymise` says and stores it."""


def new_key(path: Path) -> None:
    """A new key, readable by its owner alone; an existing file is never replaced."""
    try:
        with path.open("x") as file:
            path.chmod(0o600)
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
    except FileExistsError:
        raise DataError(f"{path} exists; a key is not replaced") from None


def read_key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: no key can be read; wanted {KEY_BYTES} bytes in hex") from error
    if len(key) != KEY_BYTES:
        raise DataError(f"{path}: found a key of {len(key)} bytes; wanted {KEY_BYTES}")
    return key


def pseudonym(key: bytes, identity: str) -> str:
    """The same for every spelling that Unicode holds equal; outer blanks do not count."""
    if len(key) != KEY_BYTES:
        raise DataError(f"found a key of {len(key)} bytes; wanted {KEY_BYTES}")
    text = unicodedata.normalize("NFKC", identity).strip()
    return hmac.new(key, b"securefg pseudonym\0" + text.encode(), hashlib.sha256).hexdigest()[:32]
