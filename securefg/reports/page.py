"""The page: sections and templates put together, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from securefg.foundation.files import write_atomically
from securefg.reports.curves import curves
from securefg.reports.findings_section import findings_section
from securefg.reports.headline import headline
from securefg.reports.messages import message_section
from securefg.reports.partition import partition_section
from securefg.reports.received import received
from securefg.reports.released import declaration, released
from securefg.reports.results import Results, read_results
from securefg.reports.setup import setup_section
from securefg.reports.templating import page_environment
from securefg.run.folder import RunFolder


def build_report(folder: RunFolder) -> Path:
    """Write `report.html` from what a finished run stored: one file, no network, nothing trained.

    The same folder gives the same bytes. Raises `RunFolderError` where the run has not finished.
    """
    path = folder.path / "report.html"
    write_atomically(path, render(read_results(folder)))
    return path


def render(results: Results) -> str:
    """The page as text. Everything that comes from the folder is escaped."""
    return (
        page_environment()
        .get_template("report.html")
        .render(
            headline=headline(results),
            about={field: _about(results, field) for field in _unprotected(results)},
            findings=findings_section(results.findings),
            folder=results.config.name,
            curves=curves(results),
            partition=partition_section(results.partition, _has_samples(results)),
            released=released(results),
            received=received(results),
            masked=results.config.privacy.secure_aggregation is not None,
            recovered=results.summary.recovered_by_algebra,
            messages=message_section(results),
            setup=setup_section(results),
            version=results.summary.versions.get("securefg", ""),
        )
    )


def _unprotected(results: Results) -> set[str]:
    return {field for claim in results.summary.epsilon.values() for field in claim.because}


def _about(results: Results, field: str) -> str:
    declared = declaration(results, field)
    return declared.about if declared else ""


def _has_samples(results: Results) -> bool:
    csbm = results.config.data.csbm
    return csbm is not None and csbm.samples_per_node > 1
