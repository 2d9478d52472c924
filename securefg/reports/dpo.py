"""A page for a data protection impact assessment, in the order of GDPR Article 35(7)."""

from __future__ import annotations

from pathlib import Path

from audits.answer.build import answer_of
from audits.answer.model import Answer
from securefg.foundation.files import write_atomically
from securefg.foundation.units import number, percent
from securefg.reports.findings_section import describe_coverage, findings_section, make_forest
from securefg.reports.first_screen import alone_command, make_screen
from securefg.reports.headline import make_headline
from securefg.reports.results import Results, read_results
from securefg.reports.templating import render_page
from securefg.reports.verdicts import list_verdicts
from securefg.runs.folder import RunFolder
from securefg.runs.scores import no_skill
from securefg.settings.config import ContextSettings

REFERENCES = (
    (
        "GDPR Article 35(7)(a) to (d)",
        "sections 4 to 7 of this page, in its order",
    ),
    (
        "EDPB Opinion 28/2024, on whether an AI model is anonymous",
        "sections 1 and 6: what was extracted from the model and from the messages by means that "
        "are reasonably likely to be used, and the chance of it",
    ),
    (
        "NIST SP 800-226, evaluating differential privacy guarantees",
        "sections 2, 6 and 7: epsilon, delta and unit of every claim, and the measured lower bound",
    ),
    (
        "OWASP AISVS C11.2 and C12.5, membership inference, inversion, and privacy in "
        "federated learning",
        "sections 1 and 6: membership, reconstruction and link attacks with their controls",
    ),
)


def build_dpo_page(folder: RunFolder) -> Path:
    """Write `dpo.html` into the run's folder."""
    path = folder.path / "dpo.html"
    write_atomically(path, render_dpo(read_results(folder), answer_of(folder.path)))
    return path


def missing_entries(context: ContextSettings) -> tuple[tuple[str, str], ...]:
    """Return the entries of the context that nobody wrote, each with its description."""
    described = type(context).describe_fields()
    empty = [key for key in type(context).model_fields if _is_empty(getattr(context, key))]
    return tuple((key, described.get(key, "")) for key in empty)


def _is_empty(value: str | int | None) -> bool:
    return value is None or not str(value).strip()


def render_dpo(results: Results, answer: Answer) -> str:
    """Return the page as text. Everything that comes from the folder is escaped."""
    context, summary = results.config.context, results.summary
    scores = summary.test_scores
    return render_page(
        "dpo.html",
        headline=make_headline(results),
        screen=make_screen(results, answer),
        alone=alone_command(results),
        config=results.config,
        missing=missing_entries(context),
        asked=len(type(context).model_fields),
        context=context,
        clients=number(results.partition.num_clients),
        score=percent(summary.test_accuracy),
        majority=percent(scores.majority) if scores and scores.majority else "not known",
        balanced=percent(scores.balanced_accuracy) if scores and scores.balanced_accuracy else "",
        precision=percent(scores.average_precision) if scores and scores.average_precision else "",
        never=percent(no_skill(scores, "average_precision")),
        chance=percent(1 / max(sum(1 for c in scores.per_class if c.count), 1)) if scores else "",
        findings=findings_section(results.findings),
        forest=make_forest(results.findings),
        tested=describe_coverage(results.findings),
        claims=zip(list_verdicts(results), summary.epsilon.values(), strict=True),
        measured=lambda unit: _measured_words(results, unit),
        chain=summary.transcript_chain,
        fingerprints=summary.fingerprints or "the data is not here",
        config_hash=summary.config_hash,
        references=REFERENCES,
        version=summary.versions.get("securefg", ""),
    )


def _measured_words(results: Results, unit: str) -> str:
    found = [f for f in results.findings or () if f.unit == unit]
    bounds = [f.epsilon_lower for f in found if f.epsilon_lower is not None]
    return f"at least {max(bounds):.3g}" if bounds else f"not measured per {unit}"
