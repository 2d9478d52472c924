"""A rehearsal on the terminal: beside the verdicts, what each lie was and who could notice."""

from __future__ import annotations

from rich.table import Table

from attacks import get_active
from audits.table import escape
from securefg.run.findings import Finding


def lies_table(findings: list[Finding]) -> Table:
    """A row per attack that was played."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("lie", "gain without it", "requests", "refused", "what a client could notice"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        told = finding.details
        if "lies" not in told:
            continue
        honest = told.get("gain_without_lie")
        table.add_row(
            escape(finding.attack.replace("_", " ")),
            "-" if honest is None else f"{honest:+.3f}",
            f"{told['requests']:.0f}, {told['lies']:.0f} of them lies",
            f"{told['refused']:.0f} rounds",
            escape(get_active(finding.attack).noticed),
        )
    return table
