"""Reports: a run's stored results as one HTML file that opens from disk. No training."""

from __future__ import annotations

from securefg.reports.page import build_report

__all__ = ["build_report"]
