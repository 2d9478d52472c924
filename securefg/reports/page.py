"""The page: sections and templates put together, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from audits.answer.build import answer_of
from audits.answer.model import Answer
from securefg.foundation.files import write_atomically
from securefg.foundation.lock import owned
from securefg.foundation.units import bytes_text
from securefg.reports.fields import find_declaration, received_fields, released_fields
from securefg.reports.findings_section import describe_coverage, findings_section, make_forest
from securefg.reports.first_screen import alone_command, make_screen
from securefg.reports.headline import make_headline
from securefg.reports.results import Results, read_results
from securefg.reports.run_figures import draw_curves, partition_section
from securefg.reports.templating import render_page
from securefg.runs.folder import RunFolder

MOMENT_SECONDS: Final = 10.0
"""For how long a page waits for a command that only looks whether the run has finished."""


def _repeat_words(results: Results) -> str:
    noised = any(booked.mechanism.noise_multiplier for booked in results.booked)
    if noised and results.config.privacy.noise_rng == "system":
        return (
            "The noise came from the system and cannot be drawn again: "
            "a repeat follows the same law, not the same bits."
        )
    return "On the same machine and versions a repeat gives the same result to the bit."


def _agreement_words(results: Results) -> str:
    counted, traffic = results.summary.bytes, results.traffic
    sent_bytes = (traffic.bytes_sent(up=True), traffic.bytes_sent(up=False))
    if sent_bytes == (counted.up.total, counted.down.total):
        return "The sizes in the transcript add up to what the run counted, to the byte."
    if traffic.damage is not None:
        why = "The transcript is not whole."
    elif results.summary.attempts > 1:
        why = "Rounds that were lost and repeated are in the transcript twice."
    else:
        why = "Trust neither before you know why."
    return (
        f"The transcript holds {bytes_text(sent_bytes[0])} up and {bytes_text(sent_bytes[1])} down"
        f"; the run counted {bytes_text(counted.up.total)} and {bytes_text(counted.down.total)}. "
        f"{why}"
    )


def build_report(folder: RunFolder) -> Path:
    """Write `report.html` from what a finished run stored: one file, no network, nothing trained.

    The same folder gives the same bytes. Raises `RunFolderError` where the run has not finished.
    """
    path = folder.path / "report.html"
    with owned(folder.path, MOMENT_SECONDS):
        write_atomically(path, render_results(read_results(folder), answer_of(folder.path)))
    return path


def render_results(results: Results, answer: Answer) -> str:
    """Return the page as text. Everything that comes from the folder is escaped."""
    return render_page(
        "report.html",
        headline=make_headline(results),
        about={field: _about_field(results, field) for field in _unprotected_fields(results)},
        findings=findings_section(results.findings),
        screen=make_screen(results, answer),
        alone=alone_command(results),
        context=results.config.context,
        forest=make_forest(results.findings),
        tested=describe_coverage(results.findings),
        curves=draw_curves(results),
        partition=partition_section(results.partition, _has_samples(results)),
        released=released_fields(results),
        received=received_fields(results),
        traffic=results.traffic,
        agreement=_agreement_words(results),
        summary=results.summary,
        config=results.config,
        same=_repeat_words(results),
        settings=yaml.safe_dump(results.config.model_dump(mode="json"), sort_keys=False),
    )


def _unprotected_fields(results: Results) -> set[str]:
    return {field for claim in results.summary.epsilon.values() for field in claim.because}


def _about_field(results: Results, field: str) -> str:
    declared = find_declaration(results, field)
    return declared.about if declared else ""


def _has_samples(results: Results) -> bool:
    csbm = results.config.data.csbm
    return csbm is not None and csbm.samples_per_node > 1
