"""The page of a curve."""

from __future__ import annotations

from pathlib import Path

from securefg.reports.curve_data import CurveData, Timing


def build_curve_page(data: CurveData, timing: Timing, path: Path) -> Path:
    raise NotImplementedError
