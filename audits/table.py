"""An audit on the terminal: the verdicts, worst first."""

from __future__ import annotations

from rich import markup
from rich.table import Table

from audits.findings.record import COVERAGE, WORST_FIRST, Finding, Verdict
from securefg.foundation.interval import Interval
from securefg.foundation.quoting import printable

COLOUR = {
    Verdict.VIOLATION: "bold white on red",
    Verdict.LEAK: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.TRACE: "magenta",
    Verdict.NOT_DETECTED: "green",
}


def escape_text(text: str) -> str:
    """Return a text of a folder so that it neither styles nor steers the terminal."""
    return markup.escape(printable(text))


# Below this the last column would be a stack of single words.
WIDE = 110


def findings_table(findings: list[Finding], width: int = WIDE) -> Table:
    """Return the table of findings. Epsilon findings show claimed and measured. Attacks show value,
    prior and gain."""
    played = [f for f in findings if f.measured]
    ordered = sorted(played, key=lambda f: WORST_FIRST.index(f.verdict))
    return _in_columns(ordered) if width >= WIDE else _in_paragraphs(ordered)


def not_measured_table(findings: list[Finding]) -> Table:
    """Return the table of fields that no attack read, places that no attack took, and attacks whose
    needs were not met."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("not measured", "by", "why"):
        table.add_column(name, overflow="fold")
    for finding in sorted((f for f in findings if not f.measured), key=_unmet_order):
        about = finding.metric if finding.attack == "unread_field" else finding.attack
        by = "" if finding.adversary == "-" else escape_text(finding.adversary)
        table.add_row(
            escape_text(about.replace("_", " ")), by, escape_text(finding.because), style="yellow"
        )
    return table


def _unmet_order(finding: Finding) -> tuple[bool, str]:
    return (finding.attack not in COVERAGE, finding.attack)


def _in_columns(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("verdict", "adversary", "attack", "reached", "prior", "gain", "why"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        table.add_row(
            _verdict_markup(finding),
            escape_text(finding.adversary),
            escape_text(finding.attack.replace("_", " ")),
            _value_text(finding),
            "" if finding.prior is None else f"{finding.prior.value:.3f}",
            "" if finding.gain is None else f"{_interval_text(finding.gain)} {finding.basis}",
            escape_text(_reason_text(finding)),
        )
    return table


def _in_paragraphs(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("adversary, attack, gain over the prior, and why")
    for finding in findings:
        who = "" if finding.adversary == "-" else f"{escape_text(finding.adversary)}, "
        gain = "" if finding.gain is None else f"  {_interval_text(finding.gain)} {finding.basis}"
        reached = _value_text(finding)
        if reached and finding.prior is not None:
            reached = f"{reached} against {finding.prior.value:.3f} by the prior"
        told = "; ".join(filter(None, (reached, escape_text(_reason_text(finding)))))
        head = f"[bold]{who}{escape_text(finding.attack.replace('_', ' '))}[/]{gain}"
        table.add_row(_verdict_markup(finding), f"{head}\n{told}")
    return table


def _verdict_markup(finding: Finding) -> str:
    return f"[{COLOUR[finding.verdict]}]{finding.verdict.replace('_', ' ').lower()}[/]"


def _reason_text(finding: Finding) -> str:
    leaks = finding.gain and finding.verdict is Verdict.LEAK
    why = finding.metric if leaks else finding.because
    return "; ".join(filter(None, (why, finding.provenance)))


def _value_text(finding: Finding) -> str:
    if finding.epsilon_lower is not None:
        claimed = "-" if finding.epsilon_claimed is None else f"{finding.epsilon_claimed:.3g}"
        return f"ε ≥ {finding.epsilon_lower:.3g} (claimed {claimed})"
    return "" if finding.value is None else f"{finding.value.value:.3f}"


def _interval_text(gain: Interval) -> str:
    return f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]".replace("[", r"\[")
