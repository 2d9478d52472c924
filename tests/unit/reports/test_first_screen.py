"""The first screen and the notebook show the answer's table, with the figures of the findings."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from audits.answer.build import answer_of
from audits.answer.model import Answer, Cell, Level, Outcome
from audits.answer.table import make_evidence
from audits.findings.record import Finding, Verdict
from securefg.foundation.interval import Interval
from securefg.reports.answer_views import table_rows
from securefg.reports.cell_plots import plot_cell
from securefg.reports.dpo import build_dpo_page, missing_entries
from securefg.reports.first_screen import VERDICTS, describe_worth, promise_lines
from securefg.reports.objects import AuditResult, CurveResult, RunResult
from securefg.reports.page import build_report
from securefg.reports.results import read_results
from securefg.reports.words import signed
from securefg.runs.folder import RunFolder
from securefg.settings.config import ContextSettings
from tests.unit.reports.made_curves import made_curve
from tests.unit.reports.made_findings import audited
from tests.unit.reports.outline import Outline
from tests.unit.reports.runs import NOISE, MakeRun

CELLS = (
    ("similar_links", "server", "LINK-SERVER", 0.7, 0.95),
    ("whitened_links", "server", "LINK-SERVER", 0.7, 0.9),
    ("answered_links", "client:0", "LINK-CLIENT", 0.5, 0.51),
    ("membership_loss", "outsider", "MEMBER-OUTSIDER", 0.57, 0.94),
    ("training_labels", "server", "LABEL-SERVER", 0.3, 0.3),
)


def finding(attack: str, adversary: str, cell: str, prior: float, value: float) -> Finding:
    gain = value - prior
    verdict = Verdict.LEAK if gain > 0.05 else Verdict.TRACE if gain > 0 else Verdict.NOT_DETECTED
    return Finding(
        adversary=adversary,
        attack=attack,
        method="fedgl",
        metric=f"AUC <of> {attack}",
        unit="edge",
        verdict=verdict,
        because="why <i>",
        value=Interval(value=value, low=value - 0.02, high=value + 0.02),
        prior=Interval(value=prior, low=prior, high=prior),
        gain=Interval(value=gain, low=gain - 0.02, high=gain + 0.02),
        targets=120,
        assumptions=("the split",),
        cells=(cell,),
        exposes="the links",
        stopped_by="masks; noise on the rows",
    )


@pytest.fixture
def run(make_run: MakeRun, tmp_path: Path) -> RunFolder:
    path = Path(shutil.copytree(make_run().path, tmp_path / "run"))
    audited(path, *(finding(*cell) for cell in CELLS))
    return RunFolder(path)


def table_of(page: str) -> dict[tuple[str, str], str]:
    """The cells of the page's table, by secret and column."""
    table = re.search(r'<table class="who">(.*?)</table>', page, re.S)
    assert table
    heads = re.findall(r'<th scope="col">(.*?)</th>', table[1])[1:]
    table_cells = {}
    for row in re.findall(r"<tr>(.*?)</tr>", table[1], re.S)[1:]:
        secret = re.search(r'<th scope="row">(.*?)</th>', row)
        assert secret
        cells = re.findall(r'<td class="level .*?>(?:<a [^>]*>|<span>)([^<]*)', row)
        for head, text in zip(heads, cells, strict=True):
            table_cells[unescape(secret[1]), head.lower()] = "-" if text == "–" else text.strip()
    return table_cells


def expected_table(answer: Answer) -> dict[tuple[str, str], str]:
    return {
        (row.title, column.title): cell.text
        for row in answer.rows
        if row.has_view
        for column, cell in zip(answer.columns, row.cells, strict=True)
    }


@pytest.mark.parametrize("build", [build_report, build_dpo_page])
def test_page_shows_the_table_of_the_answer(
    build: Callable[[RunFolder], Path], run: RunFolder
) -> None:
    page = build(run).read_text()
    answer = answer_of(run.path)
    assert table_of(page) == expected_table(answer)
    assert table_of(page)["Who is connected to whom", "server"] == "MOST"
    assert answer.sentence in Outline(page).words


def test_notebook_shows_the_table_of_the_page(run: RunFolder) -> None:
    shown = AuditResult(run.path, (), (), Verdict.LEAK)
    page = table_of(build_report(run).read_text())
    rows = table_rows(shown.answer)
    assert {(row["secret"], row["adversary"]): row["level"] for row in rows} == page
    html = shown._repr_html_()
    cells = re.findall(r"<td><(?:b|span)[^>]*>([^<]*)</", html)
    assert cells == list(page.values())
    assert shown.answer.outcome.value in html


def test_cell_opens_a_plot_with_the_figures_of_findings_json(run: RunFolder) -> None:
    page = build_report(run).read_text()
    stored = json.loads((run.path / "audit" / "findings.json").read_text())["findings"]
    for stored_finding in (one for one in stored if one["gain"]):
        section = re.search(
            rf'id="cell-sfg-{stored_finding["cells"][0].lower()}".*?</section>', page, re.S
        )
        assert section
        gain = stored_finding["gain"]
        spread = f"({signed(gain['low'])} to {signed(gain['high'])})"
        assert f"gain {signed(gain['value'])} {spread}" in section[0]
        assert "Must be known first:</strong> the split." in section[0]
        assert f'href="#cell-sfg-{stored_finding["cells"][0].lower()}"' in page


def test_short_frame_has_the_figures_of_findings_json(run: RunFolder) -> None:
    stored = json.loads((run.path / "audit" / "findings.json").read_text())["findings"]
    rows = {row["code"]: row for row in table_rows(answer_of(run.path))}
    best = next(one for one in stored if one["attack"] == "similar_links")
    row = rows["SFG-LINK-SERVER"]
    assert (row["attack"], row["level"]) == ("similar_links", "MOST")
    for name in ("prior", "value", "gain"):
        assert row[name] == best[name]["value"]


def test_plot_places_prior_value_and_interval_in_order(run: RunFolder) -> None:
    cells = {cell.code: cell for cell in answer_of(run.path).cells}
    plot = plot_cell(cells["SFG-LINK-SERVER"])
    assert plot is not None
    assert [row.one.attack for row in plot.rows] == ["similar_links", "whitened_links"]
    first = plot.rows[0]
    assert first.prior == pytest.approx(70)
    assert first.dot == pytest.approx(95)
    assert first.low < first.dot < first.low + first.width
    assert plot_cell(cells["SFG-MEMBER-SERVER"]) is None


def test_plot_of_counts_and_losses_stays_on_its_axis() -> None:
    for prior, value in ((0.0, 17.0), (0.5, 0.2), (0.0, 4_000_000.0), (0.0, -3.0)):
        cell = Cell(
            code="SFG-UPLOAD-SERVER",
            column="server",
            level=Level.EXACT,
            evidence=(make_evidence(finding("a", "server", "UPLOAD-SERVER", prior, value)),),
        )
        plot = plot_cell(cell)
        assert plot is not None
        row = plot.rows[0]
        places = [row.dot, row.left, row.left + row.span, row.low, row.low + row.width]
        assert all(-0.01 <= place <= 100.01 for place in places)
        assert 2 <= len(plot.ticks) <= 8
        assert all(0 <= place <= 100 for place, _ in plot.ticks)


def test_markup_in_a_finding_is_escaped(run: RunFolder) -> None:
    audit = AuditResult(run.path, (), (), Verdict.LEAK)
    for text in (build_report(run).read_text(), build_dpo_page(run).read_text()):
        assert "<of>" not in text
        assert "why <i>" not in text
    assert "<of>" not in audit._repr_html_()


def test_every_outcome_has_a_verdict_and_only_silence_is_calm() -> None:
    assert set(VERDICTS) == set(Outcome)
    assert [one for one, (tone, _) in VERDICTS.items() if tone == "calm"] == [Outcome.NOTHING_FOUND]


def test_run_that_was_not_audited_is_not_called_safe(make_run: MakeRun) -> None:
    page = build_report(make_run()).read_text()
    assert "NOT YET: nothing was measured" in page
    assert "Not audited yet" in page


def test_promise_of_a_run_without_noise_is_nothing(make_run: MakeRun) -> None:
    lines = list(promise_lines(read_results(make_run())))
    assert len(lines) == 1
    assert lines[0].startswith("Nothing. No noise is on: ")
    assert "Update.weights" in lines[0]


def test_promise_of_a_run_with_noise_has_its_epsilon_and_unit(make_run: MakeRun) -> None:
    results = read_results(make_run(*NOISE))
    text = " ".join(promise_lines(results))
    for unit, claim in results.summary.epsilon.items():
        assert f"per {unit}" in text
        assert (f"Per {unit}: nothing is promised" in text) is (claim.epsilon is None)


@pytest.mark.parametrize("monitor", ["val_accuracy", "val_macro_f1"])
def test_worth_is_told_in_the_monitored_score(make_run: MakeRun, monitor: str) -> None:
    text = describe_worth(read_results(make_run(f"training.monitor={monitor}")))
    name = monitor.removeprefix("val_").replace("_", " ")
    assert text.startswith(f"Test {name} ")
    assert "always naming one class" in text


def test_missing_entries_of_the_context_are_red_and_counted(run: RunFolder) -> None:
    page = build_dpo_page(run).read_text()
    entries = list(ContextSettings.model_fields)
    assert f"{len(entries)} of {len(entries)} entries that only you can write are missing" in page
    for key in entries:
        assert f'<strong class="absent-mark">missing: context.{key}</strong>' in page
    assert ".absent-mark { color: var(--red); }" in page


def test_written_entries_of_the_context_are_not_marked() -> None:
    written = ContextSettings(purpose="find fraud", num_subjects=0, measures=" \n")
    keys = [key for key, _ in missing_entries(written)]
    assert keys == ["subjects", "recipients", "necessity", "measures"]


@pytest.mark.parametrize("build", [build_report, build_dpo_page])
def test_page_explains_what_its_signature_proves(
    build: Callable[[RunFolder], Path], run: RunFolder
) -> None:
    words = " ".join(Outline(build(run).read_text()).words.split())
    assert re.search(r"Was the run computed as recorded\? ?No signature proves this\.", words)
    assert "securefg verify RUN --key HEX" in words


def test_results_print_in_ten_lines(make_run: MakeRun, run: RunFolder, tmp_path: Path) -> None:
    data, _ = made_curve()
    series = [data.choices[0].model_copy(update={"series": f"s{k}"}) for k in range(40)]
    many = data.model_copy(update={"choices": tuple(series)})
    shown = (
        RunResult.of(make_run(*NOISE)),
        AuditResult(run.path, (), (), Verdict.LEAK),
        AuditResult(tmp_path / "gone", (), (), Verdict.LEAK),
        CurveResult(many, tmp_path / "page.html", (("a", "b"),)),
    )
    for one in shown:
        lines = repr(one).splitlines()
        assert lines[0].startswith(type(one).__name__)
        assert 2 <= len(lines) <= 10


def test_short_frames_have_few_columns(make_run: MakeRun, run: RunFolder, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    result = RunResult.of(make_run())
    assert len(result.to_frame(short=True)) == len(result.to_frame())
    assert len(result.to_frame(short=True).columns) < len(result.to_frame().columns)
    data, _ = made_curve()
    curve = CurveResult(data, tmp_path / "page.html")
    assert len(curve.to_frame(short=True)) == len(data.points)
    levels = AuditResult(run.path, (), (), Verdict.LEAK).to_frame(short=True)["level"]
    assert set(levels) <= {level.value for level in Level}
