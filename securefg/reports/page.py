"""The page: sections and templates put together, written whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from securefg.foundation.files import write_atomically
from securefg.foundation.lock import owned
from securefg.foundation.units import bytes_text, number, seconds_text
from securefg.reports.fields import declaration, received, released
from securefg.reports.findings_section import findings_section, forest, tested, worst_sentence
from securefg.reports.headline import headline
from securefg.reports.partition import partition_section
from securefg.reports.results import Kind, Results, read_results
from securefg.reports.rounds import curves
from securefg.reports.templating import page_environment
from securefg.run.folder import RunFolder


@dataclass(frozen=True)
class SetupSection:
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    settings: str
    command: str
    same: str


def setup_section(results: Results) -> SetupSection:
    summary, config = results.summary, results.config
    facts = (
        ("Seed", number(summary.seed)),
        ("Hash of the settings", summary.config_hash),
        ("Device", summary.device),
        ("Engine", summary.engine),
        ("Time", seconds_text(summary.seconds)),
        ("Attempts", number(summary.attempts)),
    )
    return SetupSection(
        facts=facts,
        versions=tuple(summary.versions.items()),
        settings=yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False),
        command=f"securefg run {config.name}.yaml",
        same=_same(results),
    )


def _same(results: Results) -> str:
    noised = any(booked.mechanism.noise_multiplier for booked in results.booked)
    if noised and results.config.privacy.noise_rng == "system":
        return (
            "The noise came from the system and cannot be drawn again: "
            "a repeat follows the same law, not the same bits."
        )
    return "On the same machine and versions a repeat gives the same result to the bit."


@dataclass(frozen=True)
class MessageLine:
    kind: str
    direction: str
    messages: str
    payload: str
    envelope: str
    mean: str
    kept: str


@dataclass(frozen=True)
class MessageSection:
    lines: tuple[MessageLine, ...]
    damaged: bool
    agreement: str
    drop_reasons: tuple[tuple[str, str], ...]


def message_section(results: Results) -> MessageSection:
    return MessageSection(
        lines=tuple(_line(kind) for kind in results.traffic.kinds),
        damaged=results.traffic.damage is not None,
        agreement=_agreement(results),
        drop_reasons=tuple((why, number(count)) for why, count in results.traffic.drop_reasons),
    )


def _line(kind: Kind) -> MessageLine:
    return MessageLine(
        kind=kind.kind,
        direction="client → server" if kind.up else "server → client",
        messages=number(kind.messages),
        payload=bytes_text(kind.payload),
        envelope=bytes_text(kind.envelope),
        mean=bytes_text((kind.payload + kind.envelope) / max(kind.messages, 1)),
        kept=f"{number(kind.kept)} of {number(kind.records)}",
    )


def _agreement(results: Results) -> str:
    counted, traffic = results.summary.bytes, results.traffic
    found = (traffic.bytes_sent(up=True), traffic.bytes_sent(up=False))
    if found == (counted.up.total, counted.down.total):
        return "The sizes in the transcript add up to what the run counted, to the byte."
    if traffic.damage is not None:
        why = "The transcript is not whole."
    elif results.summary.attempts > 1:
        why = "Rounds that were lost and repeated are in the transcript twice."
    else:
        why = "Trust neither before you know why."
    return (
        f"The transcript holds {bytes_text(found[0])} up and {bytes_text(found[1])} down; "
        f"the run counted {bytes_text(counted.up.total)} and {bytes_text(counted.down.total)}. "
        f"{why}"
    )


def build_report(folder: RunFolder) -> Path:
    """Write `report.html` from what a finished run stored: one file, no network, nothing trained.

    The same folder gives the same bytes. Raises `RunFolderError` where the run has not finished.
    """
    path = folder.path / "report.html"
    with owned(folder.path):
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
            worst=worst_sentence(results.findings),
            context=results.config.context,
            forest=forest(results.findings),
            tested=tested(results.findings),
            folder=results.config.name,
            curves=curves(results),
            partition=partition_section(results.partition, _has_samples(results)),
            released=released(results),
            received=received(results),
            masked=results.config.privacy.secure_aggregation is not None,
            recovered=results.summary.recovered_by_algebra,
            trusts_the_server=results.summary.masking_trusts_the_server,
            blamed=results.summary.blamed,
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
