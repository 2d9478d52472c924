"""Federated graph learning whose privacy is measured, not claimed.

`securefg.run`, `securefg.audit` and `securefg.curve` do what the commands do, and give typed
results (`securefg/api.py`). `securefg.record` records any training loop.
Importing securefg loads nothing else: names are found when asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from securefg.api import (
        Array,
        Attack,
        AuditResult,
        CannotAttack,
        CurveResult,
        Observer,
        Question,
        RoundReport,
        RunResult,
        View,
        audit,
        curve,
        open_run,
        run,
    )
    from securefg.privacy.calculator import compute_epsilon, find_noise
    from securefg.privacy.sample_training import train_privately
    from securefg.protocol.recording import record

__version__ = "0.2.0"
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
    "compute_epsilon",
    "curve",
    "find_noise",
    "open_run",
    "record",
    "run",
    "train_privately",
]
_OUTSIDE_API = {
    "compute_epsilon": "securefg.privacy.calculator",
    "find_noise": "securefg.privacy.calculator",
    "record": "securefg.protocol.recording",
    "train_privately": "securefg.privacy.sample_training",
}
"""Names that do not wait for `securefg.api`, which loads all of training."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'securefg' has no attribute {name!r}")
    from securefg.foundation.extensions import require_own_packages

    require_own_packages()
    return getattr(importlib.import_module(_OUTSIDE_API.get(name, "securefg.api")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
