"""When Python looks for unreachable cycles: not while a large library is imported, and not at exit.

Modules live as long as the process. To search a million of their objects for garbage takes a third
of the CPU time of importing PyTorch.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys


def import_uncollected(module: str) -> None:
    """Import a module without a search for cycles, and exempt all objects from later searches.

    Nothing happens where the module is loaded already.
    """
    if module in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module(module)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def skip_last_collection() -> None:
    """Leave out the search for cycles at the interpreter's end. Handlers of the exit still run."""
    atexit.register(gc.freeze)
