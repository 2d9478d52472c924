"""A run's results in other forms: Markdown, JSON, CSV, and a page for an impact assessment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from audits.findings.record import Finding
from securefg.foundation.files import write_atomically
from securefg.foundation.lock import owned
from securefg.foundation.quoting import printable
from securefg.foundation.units import number, percent
from securefg.reports.figures.charts import csv_text
from securefg.reports.findings_section import (
    describe_coverage,
    findings_section,
    forest,
    worst_sentence,
)
from securefg.reports.headline import headline
from securefg.reports.page import build_report
from securefg.reports.results import Results, read_results
from securefg.reports.templating import render_page
from securefg.reports.verdicts import verdicts
from securefg.reports.words import VERDICT_WORDS, adversary_words, attack_words, signed
from securefg.runs.folder import RunFolder


def export(folder: RunFolder, kind: str) -> Path:
    """Write `report.<kind>` into the run's folder."""
    if kind == "html":
        return build_report(folder)
    path = folder.path / f"report.{kind}"
    with owned(folder.path):
        write_atomically(path, FORMATS[kind](read_results(folder)))
    return path


def as_markdown(results: Results) -> str:
    """The head of the page and the findings, to paste."""
    top = headline(results)
    parts = [f"# {_plain(top.title)}", _plain(f"{top.method} on {top.dataset}: {top.about}.")]
    parts += [f"**{_plain(title)}.** {_plain(text)}" for title, text in top.notices]
    scores = [("Test accuracy", top.accuracy, top.definition)]
    scores += [(tile.name, tile.value, tile.note) for tile in top.tiles]
    parts.append(_table(("", "", ""), scores))
    parts.append("## Privacy")
    for verdict in top.verdicts:
        fields = "".join(f"\n- {_plain(field)}" for field in verdict.fields)
        sentence = _plain(verdict.sentence)
        parts.append(f"**per {verdict.unit}: {_plain(verdict.symbol)}** {sentence}{fields}")
    parts.append("## Findings")
    parts.append(_findings(results.findings))
    return "\n\n".join(parts) + "\n"


def _findings(findings: Sequence[Finding] | None) -> str:
    if findings is None:
        return "Not audited."
    rows = [
        (
            attack_words(one.attack),
            adversary_words(one.adversary),
            VERDICT_WORDS.get(one.verdict, one.verdict),
            "" if one.gain is None else signed(one.gain.value),
            one.words,
        )
        for one in findings
    ]
    return _table(("attack", "adversary", "verdict", "gain", "because"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_plain, line)) + " |" for line in lines)


_MEANT = str.maketrans({c: f"\\{c}" for c in "\\`*_[]|"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, one line."""
    return printable(" ".join(text.split())).translate(_MEANT)


def as_json(results: Results) -> str:
    """Summary, config, partition, rounds and findings as one object."""
    findings = results.findings
    tree: dict[str, Any] = {
        "summary": results.summary.model_dump(mode="json"),
        "config": results.config.model_dump(mode="json"),
        "partition": results.partition.model_dump(mode="json", exclude={"clients", "overlap"}),
        "rounds": [vars(one) for one in results.rounds],
        "findings": None if findings is None else [f.model_dump(mode="json") for f in findings],
    }
    return json.dumps(tree, indent=2, allow_nan=False) + "\n"


def as_csv(results: Results) -> str:
    """Long form, one number a line: `part` is result, epsilon, round or finding."""
    return csv_text(("part", "name", "value", "low", "high", "note"), _numbers(results))


def _numbers(results: Results) -> Iterator[tuple[object, ...]]:
    summary = results.summary
    for name in ("test_accuracy", "val_accuracy", "rounds", "best_round", "dropped", "seconds"):
        yield "result", name, getattr(summary, name), None, None, ""
    for score, reached in (summary.test_scores.figures() if summary.test_scores else {}).items():
        yield "result", f"test_{score}", reached, None, None, ""
    yield "result", "bytes_up", summary.bytes.up.total, None, None, ""
    yield "result", "bytes_down", summary.bytes.down.total, None, None, ""
    for unit, claim in summary.epsilon.items():
        value = "inf" if claim.epsilon is None else claim.epsilon
        yield "epsilon", unit, value, None, None, f"delta {claim.delta:g}; {claim.about(unit)}"
    for one in (one for one in results.rounds if not one.aborted):
        for name in ("train_loss", "val_loss", "val_accuracy", "test_accuracy"):
            yield "round", name, getattr(one, name), None, None, one.round
    for found in results.findings or ():
        gain = found.gain
        numbers = (None,) * 3 if gain is None else (gain.value, gain.low, gain.high)
        yield "finding", f"{found.attack} {found.adversary}", *numbers, found.verdict


FORMATS: dict[str, Callable[[Results], str]] = {
    "md": as_markdown,
    "json": as_json,
    "csv": as_csv,
}


REFERENCES = (
    (
        "GDPR Article 35(7)(a) to (d)",
        "sections 1 to 4 of this page, in its order",
    ),
    (
        "EDPB Opinion 28/2024, on whether an AI model is anonymous",
        "section 3: what was extracted from the model and from the messages by means that are "
        "reasonably likely to be used, and the chance of it",
    ),
    (
        "NIST SP 800-226, evaluating differential privacy guarantees",
        "sections 3 and 4: epsilon, delta and unit of every claim, and the measured lower bound",
    ),
    (
        "OWASP AISVS C11.2 and C12.5, membership inference, inversion, and privacy in "
        "federated learning",
        "section 3: membership, reconstruction and link attacks with their controls",
    ),
)


def build_dpo_page(folder: RunFolder) -> Path:
    """Write `dpo.html` into the run's folder."""
    path = folder.path / "dpo.html"
    write_atomically(path, render_dpo(read_results(folder)))
    return path


def render_dpo(results: Results) -> str:
    """The page as text. Everything that comes from the folder is escaped."""
    context, summary = results.config.context, results.summary
    scores = summary.test_scores
    return render_page(
        "dpo.html",
        headline=headline(results),
        worst=worst_sentence(results.findings),
        context=context,
        subjects="not stated" if context.num_subjects is None else number(context.num_subjects),
        clients=number(results.partition.num_clients),
        score=percent(summary.test_accuracy),
        majority=percent(scores.majority) if scores else "not known",
        balanced=percent(scores.balanced_accuracy) if scores else "",
        chance=percent(1 / max(sum(1 for c in scores.per_class if c.count), 1)) if scores else "",
        findings=findings_section(results.findings),
        forest=forest(results.findings),
        tested=describe_coverage(results.findings),
        claims=zip(verdicts(results), summary.epsilon.values(), strict=True),
        measured=lambda unit: _measured(results, unit),
        chain=summary.transcript_chain,
        fingerprints=summary.fingerprints or "the data is not here",
        config_hash=summary.config_hash,
        references=REFERENCES,
        version=summary.versions.get("securefg", ""),
    )


def _measured(results: Results, unit: str) -> str:
    found = [f for f in results.findings or () if f.unit == unit]
    bounds = [f.epsilon_lower for f in found if f.epsilon_lower is not None]
    return f"at least {max(bounds):.3g}" if bounds else f"not measured per {unit}"
