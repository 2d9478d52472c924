"""Federated graph learning whose privacy is measured, not claimed.

`securefg.run`, `securefg.audit` and `securefg.curve` do what the commands do, and give typed
results (`securefg/api.py`). Importing securefg loads nothing else: names are found when asked for.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from securefg import run as _room

__version__ = "0.1.0"
__all__ = [
    "Array",
    "Attack",
    "AuditResult",
    "CannotAttack",
    "CurveResult",
    "Observer",
    "Question",
    "RoundReport",
    "RunResult",
    "View",
    "audit",
    "curve",
    "open_run",
    "run",
]


class _Callable(ModuleType):
    """The room `securefg.run`, which has the name of the verb: called, it is `api.run`."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _api().run(*arguments, **named)


_room.__class__ = _Callable


def _api() -> Any:
    from securefg.foundation.extensions import require_own_packages

    require_own_packages()
    return importlib.import_module("securefg.api")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'securefg' has no attribute {name!r}")
    return getattr(_api(), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
