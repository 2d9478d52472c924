"""An audit on the terminal: the verdicts, worst first."""

from __future__ import annotations

from rich.table import Table

from audits.findings import Figure, Finding, Verdict

COLOUR = {
    Verdict.VIOLATION: "bold white on red",
    Verdict.LEAK: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.NOT_DETECTED: "green",
}
ORDER = [Verdict.VIOLATION, Verdict.LEAK, Verdict.INCONCLUSIVE, Verdict.NOT_DETECTED]


def findings_table(findings: list[Finding]) -> Table:
    """Epsilon findings show claimed and measured; attacks show value, prior and gain."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("verdict", "adversary", "attack", "reached", "prior", "gain", "why"):
        table.add_column(name, overflow="fold")
    for finding in sorted(findings, key=lambda f: ORDER.index(f.verdict)):
        verdict = f"[{COLOUR[finding.verdict]}]{finding.verdict.replace('_', ' ').lower()}[/]"
        table.add_row(
            verdict,
            finding.adversary,
            finding.attack.replace("_", " "),
            _value(finding),
            "" if finding.prior is None else f"{finding.prior.value:.3f}",
            "" if finding.gain is None else _interval(finding.gain),
            finding.metric if finding.gain and finding.verdict is Verdict.LEAK else finding.because,
        )
    return table


def _value(finding: Finding) -> str:
    if finding.epsilon_lower is not None:
        claimed = "-" if finding.epsilon_claimed is None else f"{finding.epsilon_claimed:.3g}"
        return f"ε ≥ {finding.epsilon_lower:.3g} (claimed {claimed})"
    return "" if finding.value is None else f"{finding.value.value:.3f}"


def _interval(gain: Figure) -> str:
    return f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]".replace("[", r"\[")
