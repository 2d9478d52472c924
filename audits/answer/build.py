"""The answer of a run, from its stored findings and its summary alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from audits.answer.accepted import FILE, apply_accepted, read_accepted
from audits.answer.floor import floor_outcome, worst_outcome
from audits.answer.model import (
    Answer,
    Gap,
    GapKind,
    Level,
    Outcome,
    Promise,
    Quality,
    Row,
    RunFacts,
    Twin,
)
from audits.answer.remedies import KINDS, make_remedies, twin_config
from audits.answer.sentences import COLUMNS, attack_words, join_words, worst_sentence
from audits.answer.table import (
    PREFIX,
    code_text,
    columns_of,
    has_place,
    is_attack,
    is_promise,
    make_rows,
)
from audits.findings.record import MISSING, NOT_ASKED, UNFINISHED, Finding, Verdict
from audits.findings.stored import findings_of
from securefg.foundation.json_text import read_json
from securefg.foundation.units import plural
from securefg.runs.folder import RunFolder
from securefg.runs.scores import monitored_name, no_skill, score_of
from securefg.runs.summary import Summary
from securefg.settings.config import RunConfig
from securefg.settings.privacy import NO_DEFENCE

ACCEPTED = f"audit/{FILE}"
"""The accepted risks as the last audit was given them."""
TRIED = "audit/tried"
"""The folder of twins, one below it for every remedy."""
NOT_AUDITED = "This run was not audited, so nothing is known of who learns what."
FIELD = re.compile(r"\b[A-Z]\w*\.\w+")
"""The name of a message's field, such as Update.weights."""
STATES: dict[Verdict, Literal["kept", "broken", "not known"]] = {
    Verdict.VIOLATION: "broken",
    Verdict.NOT_DETECTED: "kept",
}


def answer_of(folder: Path) -> Answer:
    """Return the answer of a finished run: what its audits found so far, and what was accepted."""
    run = RunFolder.open(folder)
    summary = run.summary()
    clients = read_json(folder / "partition.json").get("num_clients")
    facts = facts_of(run.config(), summary, clients, str(folder))
    found = findings_of(folder, summary.transcript_chain)
    answer = make_answer(found, facts, read_twins(folder, run.config(), facts))
    accepted = folder / ACCEPTED
    return apply_accepted(answer, read_accepted(accepted)) if accepted.is_file() else answer


def facts_of(config: RunConfig, summary: Summary, clients: int | None, folder: str) -> RunFacts:
    """Return what the answer says of the run itself."""
    score, privacy = monitored_name(config, summary), config.privacy
    quality = Quality(
        score=score.replace("_", " "),
        value=score_of(summary, score),
        one_class=no_skill(summary.test_scores, score),
    )
    noise = "" if privacy.target_epsilon is None else f"epsilon {privacy.target_epsilon:g}"
    is_noised = any(claim.epsilon is not None for claim in summary.epsilon.values())
    return RunFacts(
        name=config.name,
        method=summary.method,
        folder=folder,
        clients=clients,
        rounds=config.training.rounds,
        has_equal_weights=getattr(config.method, "weighting", "clients") == "clients",
        masks=privacy.secure_aggregation is not None,
        noise=noise or ("noise" if is_noised else ""),
        quality=quality,
        epsilon={unit: claim.epsilon for unit, claim in summary.epsilon.items()},
        noise_protects=summary.noise_protects,
    )


def facts_of_config(config: RunConfig, folder: str = "") -> RunFacts:
    """Return what a config alone says of a run: no scores and no number of clients."""
    privacy = config.privacy
    target = "" if privacy.target_epsilon is None else f"epsilon {privacy.target_epsilon:g}"
    is_noised = privacy.mechanism != NO_DEFENCE or config.training.noise_in_training is not None
    return RunFacts(
        name=config.name,
        method=config.method.name,
        folder=folder,
        rounds=config.training.rounds,
        has_equal_weights=getattr(config.method, "weighting", "clients") == "clients",
        masks=privacy.secure_aggregation is not None,
        noise=target or ("noise" if is_noised else ""),
    )


def read_twins(folder: Path, run_config: RunConfig, facts: RunFacts) -> dict[str, Twin]:
    """Return the audited twins of a run by the key of their remedy (`--try`).

    A run of another config in their place is no twin, and says nothing.
    """
    twins_by_key = {}
    keys = {kind.key for kind in KINDS}
    for path in sorted((folder / TRIED).glob("*/*/summary.json")):
        twin = RunFolder.open(path.parent)
        summary, config = twin.summary(), twin.config()
        name = path.parent.parent.name
        if (
            name not in keys
            or config.hash != twin_config(run_config, name, facts, path.parent).hash
        ):
            continue
        findings = findings_of(twin.path, summary.transcript_chain)
        if findings is not None:
            levels = {cell.code: cell.level for row in make_rows(findings) for cell in row.cells}
            quality = facts_of(config, summary, None, "").quality
            twins_by_key[name] = Twin(rounds=summary.rounds, quality=quality, levels=levels)
    return twins_by_key


def make_answer(
    findings: Sequence[Finding] | None,
    run: RunFacts,
    twins: Mapping[str, Twin] = MappingProxyType({}),
) -> Answer:
    """Return the answer from findings and facts. `None` stands for a run that was not audited.

    twins  what shorter runs with a remedy showed, by the key of the remedy
    """
    all_findings = list(findings or ())
    rows = make_rows(all_findings)
    promises = _worst_promises(all_findings)
    gaps = _find_gaps(all_findings, rows)
    outcome = worst_outcome(judge_outcome(rows, promises, gaps), floor_outcome(all_findings))
    leaks = [cell for row in rows for cell in row.cells if cell.level.is_leak]
    evidence = [one for row in rows for cell in row.cells for one in cell.evidence]
    ran = {one.attack for one in evidence}
    loud = {one.attack for one in evidence if one.level is not Level.NOTHING}
    sentence = worst_sentence(outcome, rows, promises, gaps)
    return Answer(
        run=run,
        outcome=outcome,
        sentence=NOT_AUDITED if findings is None else sentence,
        unknown=_unknown_sentence(rows, promises, gaps),
        columns=tuple(COLUMNS[kind] for kind in columns_of(rows)),
        rows=rows,
        promises=promises,
        gaps=gaps,
        remedies=make_remedies(leaks, run, twins),
        attacks_run=len(ran),
        attacks_silent=len(ran - loud),
        absent=_absent_attacks(all_findings, ran),
    )


def judge_outcome(rows: Sequence[Row], promises: Sequence[Promise], gaps: Sequence[Gap]) -> Outcome:
    """Return the verdict of the whole run. A secret that was not measured is worse than a trace."""
    cells = [cell for row in rows for cell in row.cells]
    levels = {cell.level for cell in cells}
    if any(promise.state == "broken" for promise in promises):
        return Outcome.BROKEN_PROMISE
    if any(cell.level.is_leak or cell.is_small_leak for cell in cells):
        return Outcome.NOT_PRIVATE
    unknown = any(cell.is_open for cell in cells)
    unchecked = any(promise.state == "not known" for promise in promises)
    if unknown or unchecked or any(gap.blocks for gap in gaps):
        return Outcome.NOT_ENOUGH_MEASURED
    if Level.TRACE in levels:
        return Outcome.LEAKS_A_LITTLE
    return Outcome.NOTHING_FOUND if Level.NOTHING in levels else Outcome.NOT_ENOUGH_MEASURED


def _worst_promises(findings: Iterable[Finding]) -> tuple[Promise, ...]:
    """Return the checks by code. If several checks have one code, the worst is returned."""
    promises_by_code: dict[str, Promise] = {}
    for promise in map(_make_promise, filter(is_promise, findings)):
        known = promises_by_code.get(promise.code)
        if known is None or _promise_severity(promise) < _promise_severity(known):
            promises_by_code[promise.code] = promise
    return tuple(promises_by_code[code] for code in sorted(promises_by_code))


def _promise_severity(promise: Promise) -> tuple[int, str]:
    return ("broken", "not known", "kept").index(promise.state), promise.because


def _make_promise(finding: Finding) -> Promise:
    field = FIELD.search(finding.metric)
    about = f"{finding.attack}-{field.group()}" if field else finding.attack
    return Promise(
        code=f"{PREFIX}-PROMISE-{code_text(about)}",
        name=attack_words(finding.attack),
        state=STATES.get(finding.verdict, "not known"),
        because=finding.words,
        epsilon_claimed=finding.epsilon_claimed,
        epsilon_lower=finding.epsilon_lower,
    )


def _find_gaps(findings: Iterable[Finding], rows: Sequence[Row]) -> tuple[Gap, ...]:
    """Return what the audit cannot tell beside the cells, in a fixed order."""
    decided = {
        (one.attack, one.adversary): cell.level
        for row in rows
        for cell in row.cells
        for one in cell.evidence
    }
    found = [gap for finding in findings for gap in _gaps_of(finding, decided)]
    order = ("unplaced", "failed", "audit", "not_asked", "unread", "place", "weak")
    ordered = sorted(found, key=lambda gap: (order.index(gap.kind), gap.code, gap.because))
    by_code: dict[str, Gap] = {}
    for gap in ordered:
        known = by_code.setdefault(gap.code, gap)
        if known is not gap and gap.because not in known.because:
            both = f"{known.because}; {gap.because}"
            by_code[gap.code] = known.model_copy(update={"because": both})
    return tuple(by_code.values())


UNASKED = "fits this run; `securefg audit` without --only and --adversary runs it"


def _gaps_of(finding: Finding, decided: dict[tuple[str, str], Level]) -> list[Gap]:
    """Return the gaps of a finding: of attacks that nobody asked for, one for each."""
    if finding.attack == NOT_ASKED:
        names = finding.metric.split(", ")
        one_each = finding.model_copy(update={"because": UNASKED})
        return [_new_gap("not_asked", name, one_each) for name in names]
    gap = _make_gap(finding, decided)
    return [] if gap is None else [gap]


def _make_gap(finding: Finding, decided: dict[tuple[str, str], Level]) -> Gap | None:
    if finding.verdict is Verdict.LEAK and not has_place(finding):
        return _new_gap("unplaced", f"{finding.attack}-{finding.adversary}", finding)
    if finding.attack in (UNFINISHED, MISSING):
        return _new_gap("audit", finding.attack, finding)
    if finding.attack == "unread_field":
        return _new_gap("unread", finding.metric, finding)
    if finding.attack == "untaken_place":
        return _new_gap("place", finding.adversary, finding, blocks=False)
    if finding.failed:
        return _new_gap("failed", f"{finding.attack}-{finding.adversary}", finding)
    level = decided.get((finding.attack, finding.adversary))
    if finding.verdict is Verdict.INCONCLUSIVE and is_attack(finding) and level is not None:
        blocks = level is Level.NOT_KNOWN
        return _new_gap("weak", f"{finding.attack}-{finding.adversary}", finding, blocks=blocks)
    if _is_lost(finding):
        return _new_gap("audit", finding.attack, finding)
    return None


def _is_lost(finding: Finding) -> bool:
    """Return whether an attack could not tell, and no cell of the table says so."""
    is_open = finding.verdict is Verdict.INCONCLUSIVE and finding.unmet != "does_not_apply"
    return is_open and is_attack(finding) and not has_place(finding)


def _absent_attacks(findings: Iterable[Finding], mounted: set[str]) -> tuple[Gap, ...]:
    """Return the attacks that nobody could mount in this run, each once."""
    gaps_by_attack: dict[str, Gap] = {}
    for finding in sorted(findings, key=lambda finding: (finding.attack, finding.adversary)):
        if finding.unmet == "does_not_apply" and finding.attack not in mounted:
            gaps_by_attack.setdefault(
                finding.attack, _new_gap("absent", finding.attack, finding, False)
            )
    return tuple(gaps_by_attack.values())


def _new_gap(
    kind: GapKind,
    name: str,
    finding: Finding,
    blocks: bool = True,
) -> Gap:
    about = f"{name} {_short_digest(finding)}" if kind == "audit" else name
    return Gap(
        code=f"{PREFIX}-{code_text(f'{kind} {about}')}",
        kind=kind,
        name=name,
        because=finding.words,
        blocks=blocks,
    )


def _short_digest(finding: Finding) -> str:
    """Return a short name of what a lost audit was asked for, so that another one is new."""
    text = "; ".join((finding.words, *finding.assumptions))
    return sha256(text.encode()).hexdigest()[:8]


def _unknown_sentence(rows: Sequence[Row], promises: Sequence[Promise], gaps: Sequence[Gap]) -> str:
    """Return one sentence about what is not known."""
    cells = sum(cell.is_open for row in rows for cell in row.cells)
    untested = sum(cell.level is Level.NO_ATTACK for row in rows for cell in row.cells)
    unchecked = sum(promise.state == "not known" for promise in promises)
    kinds = [gap.kind for gap in gaps]
    counts = {
        "{} of the table": (cells, "cell"),
        "{} without any test": (untested, "cell"),
        "{} that no attack reads": (kinds.count("unread"), "field"),
        "{} that failed": (kinds.count("failed"), "attack"),
        "{} that nobody asked for": (kinds.count("not_asked"), "attack"),
        "{} whose findings are not whole": (kinds.count("audit"), "audit"),
        "{} that could not be checked": (unchecked, "promise"),
    }
    parts = [text.format(plural(many, what)) for text, (many, what) in counts.items() if many]
    return f"Not known: {join_words(parts)}." if parts else ""
