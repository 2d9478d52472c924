"""The table of an audit tells why a verdict is what it is."""

from __future__ import annotations

from rich.console import Console

from audits.findings.record import Finding, Verdict
from audits.table import findings_table, not_measured_table
from securefg.foundation.interval import Interval


def printed(verdict: Verdict, width: int = 200) -> str:
    figure = Interval(value=0.3, low=0.2, high=0.4)
    finding = Finding(
        adversary="server",
        attack="some_attack",
        method="fedgl",
        metric="AUC over pairs",
        unit="edge",
        verdict=verdict,
        because="the null control is off chance",
        value=figure,
        prior=figure,
        gain=figure,
    )
    console = Console(width=width, no_color=True)
    with console.capture() as told:
        console.print(findings_table([finding], console.width))
    return told.get()


def test_a_gain_that_a_control_refuses_shows_the_refusal() -> None:
    assert "off chance" in printed(Verdict.INCONCLUSIVE)


def test_a_leak_shows_what_was_measured() -> None:
    assert "AUC over pairs" in printed(Verdict.LEAK)


def test_a_narrow_terminal_gets_paragraphs() -> None:
    lines = printed(Verdict.LEAK, width=80).splitlines()
    assert lines[1].rstrip().endswith("server, some attack  +0.300 [+0.200, +0.400] measured")
    assert lines[2].strip() == "0.300 against 0.300 by the prior; AUC over pairs"


def unmeasured(attack: str, adversary: str, metric: str, because: str) -> Finding:
    return Finding(
        adversary=adversary,
        attack=attack,
        method="fedgl",
        metric=metric,
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because=because,
        measured=False,
    )


def test_what_was_not_measured_stands_in_a_table_of_its_own() -> None:
    findings = [
        unmeasured("collusion", "-", "colluded_samples", "not run: no [Jacobian] is sent"),
        unmeasured("unread_field", "server", "m.Update.odd", "no attack reads it"),
        unmeasured("untaken_place", "wire", "-", "no attack took the place"),
    ]
    console = Console(width=200, no_color=True)
    with console.capture() as told:
        console.print(findings_table(findings, 200))
        console.print(not_measured_table(findings))
    lines = [" ".join(line.split()) for line in told.get().splitlines()]
    assert lines == [
        "verdict adversary attack reached prior gain why",
        "not measured by why",
        "m.Update.odd server no attack reads it",
        "untaken place wire no attack took the place",
        "collusion not run: no [Jacobian] is sent",
    ]
