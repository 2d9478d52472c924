"""The short table that ends a run."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from securefg.data.tabular.schema import RARE_ABOVE
from securefg.foundation.units import bytes_text
from securefg.runs.scores import no_skill
from securefg.runs.summary import ClaimedEpsilon, ClientAlerts, Recovered, Summary
from securefg.settings.privacy import Unit

MOST_CLIENTS = 20


def summary_table(summary: Summary) -> Table:
    """The short table that ends a run."""
    table = Table(box=None, show_header=False, pad_edge=False)
    best, rounds = summary.best_round, summary.rounds
    table.add_row("rounds", f"{rounds} ({summary.stopped}), best {best}")
    for name in ("test_accuracy", "val_accuracy"):
        value = getattr(summary, name)
        table.add_row(name.replace("_", " "), "none" if value is None else f"{value:.4f}")
    _add_scores(table, summary)
    add_epsilons(table, summary.epsilon, ".4f")
    for setting, words in summary.chosen.items():
        table.add_row("chosen", f"{setting} {words}")
    if not summary.noise_protects:
        table.add_row("", "the noise is seeded: it protects nothing")
    recovered = summary.recovered_by_algebra
    if recovered is not None:
        table.add_row("masked", _masked_words(summary, recovered))
    if summary.masking_trusts_the_server:
        table.add_row("", "the masks trust the server to follow the protocol (malicious: false)")
    if summary.masking_committee is not None:
        table.add_row("opened by", summary.masking_committee)
    if summary.masking_keys == "classical":
        table.add_row("", "the masks rest on X25519 alone (keys: classical)")
    for client, reason in summary.blamed.items():
        table.add_row("blamed", f"client {client} {reason}")
    for way in ("up", "down"):
        size = getattr(summary.bytes, way)
        envelope = bytes_text(size.envelope)
        table.add_row(f"bytes {way}", f"{bytes_text(size.total)} ({envelope} of it envelope)")
    if summary.dropped:
        table.add_row("drop-outs", str(summary.dropped))
    table.add_row("seconds", f"{summary.seconds:.1f}")
    return table


def _add_scores(table: Table, summary: Summary) -> None:
    """Add every further test score beside that of always naming one class, and the alerts."""
    test_scores = summary.test_scores
    if test_scores is None:
        return
    for name, value in test_scores.figures().items():
        if name == "majority":
            table.add_row("always one class", f"{value:.4f}")
            continue
        never = no_skill(test_scores, name)
        beside = "" if never is None else f" (always one class {never:.4f})"
        table.add_row(f"test {name.replace('_', ' ')}", f"{value:.4f}{beside}")
    if test_scores.majority is not None and test_scores.majority > RARE_ABOVE:
        for client, alerts in list(summary.alerts.items())[:MOST_CLIENTS]:
            table.add_row(f"alerts of client {client}", _alert_words(alerts))


def _alert_words(alerts: ClientAlerts) -> str:
    alert_scores = alerts.first or alerts.threshold
    kind = "first" if alerts.first else "above the threshold of validation nodes"
    shares = [
        f"{name} {'none' if value is None else format(value, '.2f')}"
        for name, value in (
            ("precision", alert_scores.precision),
            ("recall", alert_scores.recall),
            ("average precision", alerts.average_precision),
        )
    ]
    return f"{alert_scores.alerts} {kind}: {', '.join(shares)}, of {alerts.positives} to find"


def add_epsilons(table: Table, claims: Mapping[Unit, ClaimedEpsilon], form: str) -> None:
    """Add a row per claimed epsilon, and one per thing that none of them covers."""
    for unit, claim in claims.items():
        table.add_row(f"epsilon per {unit}", claim.bound(unit))
        for one in claim.by_links:
            found = "infinite" if one.epsilon is None else format(one.epsilon, form)
            table.add_row("", f"{found} with at most {one.links} links ({one.whose})")
    for what in dict.fromkeys(what for claim in claims.values() for what in claim.not_covered):
        table.add_row("not covered", what)


def _masked_words(summary: Summary, recovered: Recovered) -> str:
    aborted = f", {summary.aborted_rounds} rounds aborted" if summary.aborted_rounds else ""
    rows = recovered.node_rows_recoverable  # a deployed server does not know who holds a node
    holders = recovered.holders_recoverable
    return (
        f"{recovered.sessions} sessions of {recovered.smallest_cohort} clients or more"
        f"{aborted}; algebra recovers {recovered.contributions_recoverable} uploads, "
        f"{'unknown how many' if rows is None else rows} node rows, and a holder of "
        f"{'unknown how many' if holders is None else holders} nodes"
    )
