"""Faults at a host: a breach of the rules ends the run, any other failure is a drop-out.

A drop-out is recorded with one reason for all, as a deployed site would answer. The person who runs
the hosts reads on the terminal which error it was and where, without its text, which may hold data.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any, Final

from securefg.foundation import errors
from securefg.foundation.errors import ProtocolError, SecurefgError
from securefg.secagg import errors as secagg_errors

FAILED: Final = "failed"
"""Why a client dropped out whose host raised."""


def note_failure(host: str, error: Exception) -> str:
    """Log which error a host raised, and where. Return the reason that is recorded."""
    places = traceback.extract_tb(error.__traceback__)
    where = f"{places[-1].filename}:{places[-1].lineno}" if places else "an unknown place"
    logging.getLogger(__name__).warning(f"{host}: {type(error).__name__} at {where}")
    return FAILED


def breach_header(error: Exception) -> dict[str, Any]:
    """Return an error as a header that `raise_breach` reads at the other side."""
    return {"breach": type(error).__name__, "reason": str(error)}


def raise_breach(header: dict[str, Any]) -> None:
    """Raise the breach of the rules that a host reported, as it would end the run in one
    process."""
    if "breach" in header:
        name = str(header["breach"])
        kind = getattr(errors, name, getattr(secagg_errors, name, None))
        if not isinstance(kind, type) or not issubclass(kind, SecurefgError):
            kind = ProtocolError
        raise kind(header["reason"])
