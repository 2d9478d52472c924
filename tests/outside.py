"""The example defence from outside the packages, importable as a user's own module is."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_defence"
NAME = "laplace"

if str(EXAMPLE) not in sys.path:
    sys.path.append(str(EXAMPLE))

Laplace: Any = importlib.import_module(NAME).DEFENCE
