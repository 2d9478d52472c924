"""A fault at a host, told to the server's side and raised there as what it was."""

from __future__ import annotations

from typing import Any

from securefg.foundation import errors
from securefg.foundation.errors import ProtocolError, SecurefgError
from securefg.secagg import errors as secagg_errors


def breach(error: Exception) -> dict[str, Any]:
    return {"breach": type(error).__name__, "reason": str(error)}


def raise_breach(header: dict[str, Any]) -> None:
    """A breach of the rules at a host ends the run here as it would in one process."""
    if "breach" in header:
        name = str(header["breach"])
        kind = getattr(errors, name, getattr(secagg_errors, name, None))
        if not isinstance(kind, type) or not issubclass(kind, SecurefgError):
            kind = ProtocolError
        raise kind(header["reason"])
