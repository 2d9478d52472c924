"""Pages that put runs, or the sites of a deployed run, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from audits.answer.build import answer_of
from audits.findings.record import Finding
from securefg.foundation.errors import RunFolderError
from securefg.foundation.files import write_atomically
from securefg.foundation.units import (
    bytes_text,
    delta_text,
    epsilon_text,
    number,
    percent,
    plural,
    seconds_text,
)
from securefg.reports.changes import Changes, find_changes
from securefg.reports.findings_section import (
    FindingsSection,
    Forest,
    Tested,
    count_words,
    describe_coverage,
    findings_section,
    make_forest,
    worst_sentence,
)
from securefg.reports.results import Results, read_results
from securefg.reports.templating import render_page
from securefg.reports.words import adversary_words, attack_words, signed, verdict_words
from securefg.runs.folder import RunFolder

NONE = "–"


@dataclass(frozen=True)
class Line:
    """A thing compared. `tones` are verdicts in lower case, for findings alone."""

    name: str
    values: tuple[str, ...]
    tones: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Return whether the runs differ in it."""
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Comparison:
    """A comparison of runs. `names` and `folders` are in the order in which the runs were given."""

    names: tuple[str, ...]
    folders: tuple[Path, ...]
    changes: Changes
    settings: tuple[Line, ...]
    results: tuple[Line, ...]
    findings: tuple[Line, ...]


def compare_runs(paths: Sequence[Path]) -> Comparison:
    """Return the comparison. Raise RunFolderError if there are fewer than two runs, or one has not
    finished."""
    if len({path.resolve() for path in paths}) < 2:
        raise RunFolderError(f"RUN: found {len(paths)}; expected two different runs or more")
    runs = [read_results(RunFolder.open(path)) for path in paths]
    names = _run_names(paths, runs)
    settings = tuple(line for line in _setting_lines(runs) if line.differs)
    named = [(line.name, line.values) for line in settings]
    return Comparison(
        names=names,
        folders=tuple(paths),
        changes=find_changes(names, runs, [answer_of(path) for path in paths], named),
        settings=settings,
        results=tuple(_result_lines(runs)),
        findings=tuple(_finding_lines(runs)),
    )


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write one page and return its path. Its links lead to the runs' own pages."""
    links = [_relative_link(folder, path) for folder in comparison.folders]
    write_atomically(path, render_page("compare.html", comparison=comparison, links=links))
    return path


def _relative_link(folder: Path, page: Path) -> str:
    """Return a link relative to the page, so that both can be moved together."""
    target = (folder / "report.html").resolve()
    return Path(os.path.relpath(target, page.resolve().parent)).as_posix()


def _run_names(paths: Sequence[Path], runs: Sequence[Results]) -> tuple[str, ...]:
    """Return the runs' names. If two are alike, return the folders', with their parents if
    needed."""
    own = [run.summary.name for run in runs]
    if len(set(own)) == len(own):
        return tuple(own)
    short = [path.resolve().name for path in paths]
    if len(set(short)) == len(short):
        return tuple(short)
    return tuple(f"{path.resolve().parent.name}/{path.resolve().name}" for path in paths)


def _setting_lines(runs: Sequence[Results]) -> Iterator[Line]:
    trees = [dict(flatten_tree(run.config.model_dump(mode="json"))) for run in runs]
    for key in dict.fromkeys(key for tree in trees for key in tree):
        if not key.startswith("output."):
            yield Line(key, tuple(str(tree.get(key, NONE)) for tree in trees))


def flatten_tree(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `a.b.c` and its value, for all leaves. Lists are leaves."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flatten_tree(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _result_lines(runs: Sequence[Results]) -> Iterator[Line]:
    def line(name: str, text: Callable[[Results], str]) -> Line:
        return Line(name, tuple(text(run) for run in runs))

    yield line("test accuracy", lambda run: percent(run.summary.test_accuracy))
    yield line("validation accuracy", lambda run: percent(run.summary.val_accuracy))
    for score in ("balanced_accuracy", "macro_f1", "roc_auc", "average_precision", "majority"):
        yield line(f"test {score.replace('_', ' ')}", partial(_quality_words, score))
    yield line("rounds", lambda run: f"{run.summary.rounds:,}, best {run.summary.best_round:,}")
    for unit in dict.fromkeys(unit for run in runs for unit in run.summary.epsilon):
        yield Line(f"epsilon per {unit}", tuple(_epsilon_words(run, unit) for run in runs))
    yield line("clients", lambda run: number(run.partition.num_clients))
    yield line("drop-outs", lambda run: number(run.summary.dropped))
    yield line("sent up", lambda run: bytes_text(run.summary.bytes.up.total))
    yield line("sent down", lambda run: bytes_text(run.summary.bytes.down.total))
    yield line("time", lambda run: seconds_text(run.summary.seconds))
    yield line("audit", _audit_words)


def _epsilon_words(run: Results, unit: Any) -> str:
    claim = run.summary.epsilon.get(unit)
    if claim is None:
        return NONE
    void = "" if run.summary.noise_protects or claim.epsilon is None else " (seeded: void)"
    if claim.epsilon is None:
        return epsilon_text(None)
    about = f"at δ {delta_text(claim.delta)}, {claim.about(unit)}"
    return f"{epsilon_text(claim.epsilon)} {about}{void}"


def _audit_words(run: Results) -> str:
    return "not audited" if run.findings is None else count_words(run.findings)


def _finding_lines(runs: Sequence[Results]) -> Iterator[Line]:
    found = [{_finding_name(one): one for one in run.findings or ()} for run in runs]
    for name in dict.fromkeys(name for run in found for name in run):
        own = [run.get(name) for run in found]
        tones = tuple(one.verdict.lower() if one else "" for one in own)
        yield Line(name, tuple(_finding_words(one) for one in own), tones)


def _finding_name(finding: Finding) -> str:
    """Return the name of a finding. Checks of a promise are made for every field, which the metric
    names."""
    field = f", {finding.metric}" if finding.epsilon_claimed is not None else ""
    return f"{attack_words(finding.attack)}, {adversary_words(finding.adversary)}{field}"


def _finding_words(finding: Finding | None) -> str:
    if finding is None:
        return NONE
    verdict = verdict_words(finding)
    return verdict if finding.gain is None else f"{verdict}, {signed(finding.gain.value)}"


def _quality_words(score: str, run: Results) -> str:
    found = run.summary.test_scores
    return "n/a" if found is None else percent(found.figures().get(score))


@dataclass(frozen=True)
class SitePart:
    """A site's findings as the page shows them, or None if the site has shared none."""

    name: str
    worst: str
    findings: FindingsSection | None
    forest: Forest | None
    tested: Tested


def build_sites_page(
    run: str, sites: Sequence[str], shared: Mapping[str, Sequence[Finding]], path: Path
) -> Path:
    """Write the page of all `sites` that took part. A site that shared nothing is named as such."""
    parts = [_site_part(name, shared.get(name)) for name in sites]
    missing = [name for name in sites if name not in shared]
    everything = [one for findings in shared.values() for one in findings]
    text = render_page(
        "sites.html",
        run=run,
        parts=parts,
        missing=missing,
        worst=_worst_of_sites(sites, missing, everything if shared else None),
    )
    write_atomically(path, text)
    return path


def _worst_of_sites(
    sites: Sequence[str], missing: Sequence[str], findings: Sequence[Finding] | None
) -> str:
    """Return the worst sentence. Findings that sites did not share are not known, whatever others
    found."""
    worst_words = worst_sentence(findings)
    if findings is None or not missing:
        return worst_words
    return (
        f"{number(len(missing))} of {plural(len(sites), 'site')} shared no findings: what can be "
        f"learnt of their parts is not known. Of the others: {worst_words}"
    )


def _site_part(name: str, findings: Sequence[Finding] | None) -> SitePart:
    unknown = "This site has shared no findings: what can be learnt of its part is not known."
    return SitePart(
        name=name,
        worst=unknown if findings is None else worst_sentence(findings),
        findings=findings_section(findings),
        forest=make_forest(findings),
        tested=describe_coverage(findings),
    )
