"""The page of a deployed run's audits: every site's own findings, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from securefg.foundation.files import write_atomically
from securefg.foundation.units import number, plural
from securefg.reports.findings_section import FindingsSection, findings_section
from securefg.reports.forest import Forest, forest
from securefg.reports.templating import page_environment
from securefg.reports.tested import Tested, tested
from securefg.reports.worst import worst_sentence
from securefg.run.findings import Finding


@dataclass(frozen=True)
class SitePart:
    """One site's findings as the page shows them; None where the site has shared none."""

    name: str
    worst: str
    findings: FindingsSection | None
    forest: Forest | None
    tested: Tested


def build_sites_page(
    run: str, sites: Sequence[str], shared: Mapping[str, Sequence[Finding]], path: Path
) -> Path:
    """`sites` are all that took part: one that shared nothing is named as such."""
    parts = [_part(name, shared.get(name)) for name in sites]
    missing = [name for name in sites if name not in shared]
    everything = [one for findings in shared.values() for one in findings]
    text = (
        page_environment()
        .get_template("sites.html")
        .render(
            run=run,
            parts=parts,
            missing=missing,
            worst=_worst(sites, missing, everything if shared else None),
        )
    )
    write_atomically(path, text)
    return path


def _worst(sites: Sequence[str], missing: Sequence[str], found: Sequence[Finding] | None) -> str:
    """What sites did not share is not known, whatever the others found."""
    said = worst_sentence(found)
    if found is None or not missing:
        return said
    return (
        f"{number(len(missing))} of {plural(len(sites), 'site')} shared no findings: what can be "
        f"learnt of their parts is not known. Of the others: {said}"
    )


def _part(name: str, findings: Sequence[Finding] | None) -> SitePart:
    unknown = "This site has shared no findings: what can be learnt of its part is not known."
    return SitePart(
        name=name,
        worst=unknown if findings is None else worst_sentence(findings),
        findings=findings_section(findings),
        forest=forest(findings),
        tested=tested(findings),
    )
