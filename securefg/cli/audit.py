"""`securefg audit`: attack what was recorded; compare with what was promised."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from securefg.cli.common import PART_FAILED, Quietly, Trusting, print_complaint, show_line
from securefg.cli.profile import Profile, Profiled, profile_phases
from securefg.foundation.collection import import_uncollected
from securefg.foundation.errors import SecurefgError
from securefg.foundation.extensions import only_known_modules

if TYPE_CHECKING:
    from audits.answer.model import Answer, RunFacts
    from audits.findings.record import Finding
    from audits.plan import Plan
    from audits.run import Audit


class Gate(StrEnum):
    """The mildest verdict that makes a command fail; NEW is any line that nobody accepted."""

    VIOLATION = "VIOLATION"
    LEAK = "LEAK"
    NEW = "NEW"


class Form(StrEnum):
    """The forms in which the answer is printed."""

    text = "text"
    json = "json"
    md = "md"
    sarif = "sarif"
    junit = "junit"
    sacro = "sacro"
    leakpro = "leakpro"


def audit(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A finished run's folder, or an exchange's; or `mechanism`."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE", help="With `mechanism`: a module with a function `release`."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTACK",
            help="Run only these attacks, a family such as `links`, or `promises`; stored "
            "findings of others stay.",
        ),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE", help="Also run this attack of your own, given by module path."
        ),
    ] = None,
    network: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME",
            help="Another framework's recording: your code of its network.",
        ),
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Another framework's recording: clients' samples; by default its folder private.",
        ),
    ] = None,
    adversary: Annotated[
        list[str] | None, typer.Option(metavar="WHO", help="server, client:3,5, wire, outsider.")
    ] = None,
    fail_on: Annotated[
        Gate,
        typer.Option(
            case_sensitive=False,
            help="Exit 1 on this verdict or a worse one; new: on any line not accepted.",
        ),
    ] = Gate.VIOLATION,
    form: Annotated[
        Form, typer.Option("--format", case_sensitive=False, help="Print the answer in this form.")
    ] = Form.text,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every attack, and what does not apply.")
    ] = False,
    accepted: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Accepted risks; by default accepted.yaml of this folder, if there is one.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of attacks run in parallel.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed for targets and null controls.")] = 0,
    trials: Annotated[int, typer.Option(min=1000, help="Trials per noise mechanism.")] = 100_000,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="Search for fresh seeds of 32 bits and remove more nodes: minutes."
        ),
    ] = False,
    remedy: Annotated[
        str | None,
        typer.Option(
            "--try",
            metavar="REMEDY",
            help="Run a short twin with masks, noise or fewer rounds, and attack that as well.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="audit.key=value", help="Override an audit setting."),
    ] = None,
    trust_modules: Trusting = False,
    quiet: Quietly = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    profile: Profiled = False,
) -> None:
    """Attack what was recorded; compare with what was promised."""
    if target is not None or str(run) == "mechanism":
        from securefg.cli.mechanism import measure_mechanism

        measure_mechanism(run, target, min(trials, 20_000), seed, overrides or [], as_json)
        return
    import_uncollected("torch")
    from attacks import expand_families
    from audits.plan import Plan

    plan = Plan(
        only=tuple(expand_families(only or ())),
        more=tuple(attack or ()),
        adversaries=tuple(adversary or ()),
        jobs=jobs,
        seed=seed,
        trials=trials,
        thorough=thorough,
        overrides=tuple(overrides or ()),
        network=network,
        data=data,
    )
    risks = _accepted_file(accepted)
    is_text = form is Form.text and not as_json
    console = Console(stderr=not is_text)
    is_quiet = quiet or not is_text
    with profile_phases(profile) as phases:
        audit_result, page = (None if remedy is None else _stored_audit(run)) or _carried_out(
            run, plan, risks, console, is_quiet, trust_modules, phases
        )
    if remedy is not None:
        _keep_accepted(run, risks)
        _try_remedy(run, remedy, plan, console, is_quiet, trust_modules)
    with only_known_modules(unless=trust_modules):
        answer = _answer_of_run(run, audit_result, risks)
    if as_json:
        print_findings(audit_result.findings)
    elif is_text and not quiet:
        show_answer(console, answer, everything)
        _show_paths(console, run, answer, page)
    elif not is_text:
        _print_answer(run, answer, audit_result, form)
    _end_by_gate(answer, audit_result, fail_on)


def _stored_audit(run: Path) -> tuple[Audit, Path] | None:
    """Return the findings of a run that was audited before, or None where there are none."""
    from audits.findings.file import is_whole
    from audits.findings.stored import findings_of
    from audits.run import Audit
    from securefg.runs.folder import RunFolder

    record = RunFolder.open(run).summary().transcript_chain
    if not is_whole(run / "audit" / "findings.json", record):
        return None
    found = list(findings_of(run, record) or ())
    return Audit(findings=found, failed=failures_of(found)), run / "report.html"


def failures_of(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return the attacks and checks that broke off, with the reason, as an audit tells them."""
    return [(one.attack, one.because) for one in findings if one.failed]


def _try_remedy(
    run: Path, key: str, plan: Plan, console: Console, quiet: bool, trust_modules: bool
) -> None:
    """Run and attack a twin with the remedy, and write the pages again."""
    from audits.twins import try_remedy

    with only_known_modules(unless=trust_modules), show_progress(console, "a twin", quiet) as told:
        try_remedy(run, key, plan, told)
        _write_pages(run)


def _accepted_file(path: Path | None) -> Path | None:
    """Return the file of accepted risks, checked before any work."""
    from audits.answer.accepted import FILE, read_accepted

    chosen = path or (Path(FILE) if Path(FILE).is_file() else None)
    if chosen is not None:
        read_accepted(chosen)
    return chosen


def _answer_of_run(run: Path, audit_result: Audit, risks: Path | None) -> Answer:
    """Return the answer of the run; an exchange of another framework has findings alone."""
    from audits.answer.accepted import apply_accepted, read_accepted
    from audits.answer.build import answer_of, make_answer
    from securefg.protocol.exchange import is_foreign

    if not is_foreign(run):
        return answer_of(run)
    answer = make_answer(audit_result.findings, _foreign_facts(run))
    return answer if risks is None else apply_accepted(answer, read_accepted(risks))


def _foreign_facts(run: Path) -> RunFacts:
    """Return what the exchange of another framework says of itself; masks are not known."""
    from audits.answer.model import RunFacts
    from securefg.protocol.exchange import read_exchange

    exchange = read_exchange(run)
    claim = exchange.claim
    return RunFacts(
        name=run.name,
        method="another framework",
        folder=str(run),
        clients=exchange.clients,
        masks=None,
        noise="" if claim is None else f"epsilon {claim.epsilon:g} claimed",
        can_run_again=False,
    )


def _end_by_gate(answer: Answer, audit_result: Audit, gate: Gate) -> None:
    """Exit 1 where the gate is not passed, and 3 where part of the audit failed."""
    from audits.answer.accepted import new_lines
    from audits.findings.record import Verdict

    if gate is Gate.NEW and (new := new_lines(answer)):
        print_complaint(f"not accepted: {', '.join(new)}")
        raise typer.Exit(1)
    wanted = [Verdict.VIOLATION] + ([Verdict.LEAK] if gate is Gate.LEAK else [])
    if gate is not Gate.NEW and any(one.verdict in wanted for one in audit_result.findings):
        raise typer.Exit(1)
    if audit_result.failed:
        raise typer.Exit(PART_FAILED)


def show_answer(console: Console, answer: Answer, everything: bool = False) -> None:
    """Print who learns what."""
    from audits.answer.terminal import answer_lines

    for line in answer_lines(answer, everything):
        console.print(line, soft_wrap=True, highlight=False)


def _print_answer(run: Path, answer: Answer, audit_result: Audit, form: Form) -> None:
    from audits.answer.exports import FORMATS
    from audits.membership_reports import REPORTS, read_tests

    if form.value in REPORTS:
        sys.stdout.write(REPORTS[form.value](read_tests(run, audit_result.findings)))
    else:
        sys.stdout.write(FORMATS[form.value](answer))


def _carried_out(
    run: Path,
    plan: Plan,
    risks: Path | None,
    console: Console,
    quiet: bool,
    trust_modules: bool,
    phases: Profile,
) -> tuple[Audit, Path | None]:
    """The audit, told on the console as it goes, and the run's page where it has one."""
    from audits.run import audit as carry_out
    from securefg.protocol.exchange import is_foreign

    with (
        only_known_modules(unless=trust_modules),
        show_progress(console, "reading the run", quiet) as report_progress,
    ):
        phases.begin("reading")

        def observed(what: str, done: int, total: int) -> None:
            phases.begin("attacks")
            report_progress(what, done, total)

        try:
            audit_result = carry_out(run, plan, observed)
            phases.begin("report")
        except (KeyboardInterrupt, SystemExit):  # what it found is on the page, and that it ended
            with suppress(SecurefgError):
                _write_pages(run)
            raise
        if is_foreign(run):
            return audit_result, None
        _keep_accepted(run, risks)
        return audit_result, _write_pages(run)


def _keep_accepted(run: Path, risks: Path | None) -> None:
    """Keep the accepted risks beside the findings, for the pages; without any, keep none."""
    from audits.answer.build import ACCEPTED
    from securefg.foundation.files import write_atomically

    if risks is not None:
        write_atomically(run / ACCEPTED, risks.read_text())
    else:
        (run / ACCEPTED).unlink(missing_ok=True)


def _write_pages(run: Path) -> Path:
    """The run's page, and the printable one where there is any, with the findings that are stored
    now: none is left that tells of earlier ones."""
    from securefg.reports import build_report
    from securefg.reports.dpo import build_dpo_page
    from securefg.runs.folder import RunFolder
    from securefg.runs.seal import absent_signer, sign_page

    folder = RunFolder.open(run)
    pages = [build_report(folder)]
    if (run / "dpo.html").is_file():
        pages.append(build_dpo_page(folder))
    if absent_signer(folder):  # a new key of ours would hide who signed the pages before
        return pages[0]
    for page in pages:
        sign_page(folder, page)
    return pages[0]


@contextmanager
def show_progress(
    console: Console, first: str, quiet: bool
) -> Iterator[Callable[[str, int, int], None]]:
    """Show what is being done and how much of it is done, unless `quiet`."""
    with nullcontext() if quiet else console.status(first) as status:

        def tell_progress(what: str, done: int, total: int) -> None:
            if status is not None:
                status.update(f"{done} of {total}: {escape(what)}")

        yield tell_progress


def print_findings(findings: list[Finding]) -> None:
    """Write the findings as JSON to standard output."""
    dumped = [finding.model_dump(mode="json") for finding in findings]
    sys.stdout.write(json.dumps(dumped, indent=2, allow_nan=False) + "\n")


def _show_paths(console: Console, run: Path, answer: Answer, page: Path | None) -> None:
    """Print the next command and the page."""
    untried = [remedy.key for remedy in answer.remedies if remedy.key and not remedy.is_tried]
    console.print()
    if untried:
        show_line(f"{'Try':<14}securefg audit {run} --try {untried[0]}", console)
    name, path = ("Page", page) if page else ("Findings", run / "audit" / "findings.json")
    show_line(f"{name:<14}{path}", console)
    signer = _absent_signer(run) if page else ""
    if signer:
        words = f"not renewed: it is by {signer[:16]}…, whose key is not here"
        show_line(f"{'Signature':<14}{words}", console)


def _absent_signer(run: Path) -> str:
    from securefg.runs.folder import RunFolder
    from securefg.runs.seal import absent_signer

    return absent_signer(RunFolder.open(run))
