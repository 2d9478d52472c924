"""Pages a decision is taken from: the worst in a sentence with counts, escaped, signed, checked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audits.findings.file import FindingsFile
from audits.findings.history import file_digest
from audits.findings.record import Finding, Verdict
from securefg.cli.main import app
from securefg.foundation.errors import InputError
from securefg.foundation.interval import Interval
from securefg.reports.compare import build_sites_page
from securefg.reports.dpo import build_dpo_page
from securefg.reports.findings_section import describe_coverage, make_forest, worst_sentence
from securefg.reports.page import build_report
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.seal import sign_page, verify_run
from securefg.settings.config import parse_config
from tests import small

PURPOSE = "find <b>fraud</b> & say so"


def finding(verdict: str, gain: float = 0.2, **more: object) -> Finding:
    filled: dict[str, object] = {
        "adversary": "server",
        "attack": "membership_loss",
        "method": "m",
        "metric": "AUC over training and test nodes",
        "unit": "label of a node",
        "verdict": Verdict(verdict),
        "because": "why <i>",
        "gain": Interval(value=gain, low=gain - 0.1, high=gain + 0.1),
        "value": Interval(value=0.7, low=0.6, high=0.8),
        "prior": Interval(value=0.5, low=0.5, high=0.5),
        "targets": 280,
        "assumptions": ("the model's answers",),
    }
    return Finding(**{**filled, **more})  # type: ignore[arg-type]


PROMISE = finding("NOT_DETECTED", attack="books").model_copy(update={"gain": None})
PICKED = {"picked": 52.0, "picked_of": 140.0, "picked_false_alarms": 0.05}


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        (None, "it was not audited"),
        ([], "nothing is known"),
        (
            [finding("LEAK", details=PICKED)],
            "The server picks out 52 of 140 targets at one false alarm in twenty (",
        ),
        (
            [finding("LEAK", unit="sample", details={"exact_samples": 0.5})],
            "Of 280 samples that were tried, 140 can be reconstructed exactly by the server.",
        ),
        (
            [
                finding(
                    "LEAK",
                    unit="edge",
                    details={"precision_at_num_edges": 0.5, "share_of_edges": 0.1},
                )
            ],
            "Of 28 links that were tried, 14 are among as many best guesses of the server.",
        ),
        ([finding("LEAK")], "reaches 0.7 instead of 0.5"),
        ([finding("LEAK"), finding("VIOLATION", because="x")], "promise of this run is broken: x"),
        ([finding("INCONCLUSIVE")] * 3, "3 of 3 checks were not made or did not hold"),
        (
            [finding("INCONCLUSIVE"), finding("NOT_DETECTED"), PROMISE],
            "did not hold; of 2 attacks that were run, 1 found no leak",
        ),
        (
            [finding("INCONCLUSIVE", measured=False).model_copy(update={"gain": None})],
            "no attack was run",
        ),
        ([finding("NOT_DETECTED")], "None of 1 checks found a leak"),
        ([finding("NOT_DETECTED").model_copy(update={"gain": None})], "no attack was tried"),
    ],
)
def test_the_worst_finding_is_one_sentence(findings: list[Finding] | None, words: str) -> None:
    assert words in worst_sentence(findings)


def test_a_forest_is_ranked_and_within_its_axis() -> None:
    drawn = make_forest([finding("NOT_DETECTED", 0.0), finding("LEAK", 0.9), finding("LEAK", 0.3)])
    assert drawn is not None
    assert [row.finding.verdict for row in drawn.rows] == ["LEAK", "LEAK", "NOT_DETECTED"]
    for row in drawn.rows:
        assert 0 <= row.low <= row.dot <= row.low + row.width <= 100.01
    assert drawn.rows[0].dot > drawn.rows[1].dot > drawn.zero - 1
    assert make_forest([finding("INCONCLUSIVE", gain=0.1, measured=False)]) is not None
    assert make_forest(None) is None


def test_what_was_not_tested_is_said_even_where_nothing_was() -> None:
    assert describe_coverage(None).not_tested == ("nothing was tested: the run was not audited",)
    parts = describe_coverage(
        [finding("LEAK"), finding("INCONCLUSIVE", attack="drift", measured=False)]
    )
    assert parts.tested == ("membership loss by the server",)
    assert parts.not_tested == ("drift by the server: why <i>",)
    assert parts.assumed == ("membership loss: the model's answers",)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    tree = small.tree(tmp_path_factory.mktemp("decision"), "fedavg")
    tree["training"] = {"rounds": 1, "patience": None}
    tree["context"] = {"purpose": PURPOSE, "subjects": "customers", "num_subjects": 120}
    folder = runner.start(parse_config(tree)).folder
    about = {"record": folder.summary().transcript_chain}
    file = FindingsFile.begin(folder.path / "audit", about, anew=True)
    file.add([finding("LEAK", details=PICKED)])
    file.close({})
    return folder


@pytest.fixture
def copied(run: RunFolder, tmp_path: Path) -> RunFolder:
    pages = shutil.ignore_patterns("*.html", "manifest.json")
    shutil.copytree(run.path, tmp_path / "copy", ignore=pages)
    return RunFolder(tmp_path / "copy")


def test_the_context_is_echoed_verbatim_and_escaped(run: RunFolder) -> None:
    for page in (build_report(run), build_dpo_page(run)):
        text = page.read_text()
        assert "find &lt;b&gt;fraud&lt;/b&gt; &amp; say so" in text
        assert "<b>fraud" not in text
        assert "why <i>" not in text
        assert "52 of 140 at 1 false alarm in 20" in text


def test_the_context_changes_no_run(run: RunFolder) -> None:
    tree = run.config().model_dump(mode="json")
    assert parse_config({**tree, "context": {}}).hash == run.config().hash


def test_the_page_for_an_assessment_goes_by_article_35(run: RunFolder) -> None:
    text = build_dpo_page(run).read_text()
    places = [text.index(f"Article 35(7)({part})") for part in "abcd"]
    assert places == sorted(places)
    for reference in ("Opinion 28/2024", "SP 800-226", "AISVS C11.2 and C12.5"):
        assert reference in text


def test_a_measured_epsilon_stands_beside_the_claim_of_its_own_unit(tmp_path: Path) -> None:
    tree = small.tree(tmp_path)
    tree["method"]["weighting"] = "equal"
    tree["training"]["rounds"] = 1
    tree["privacy"] = {"mechanism": "local_gaussian", "noise_multiplier": 0.3, "unit": "row"}
    folder = runner.start(parse_config(tree)).folder
    file = FindingsFile.begin(
        folder.path / "audit", {"record": folder.summary().transcript_chain}, anew=True
    )
    file.add([finding("NOT_DETECTED", unit="client", epsilon_claimed=90.0, epsilon_lower=61.5)])
    file.close({})
    page = build_dpo_page(folder).read_text()
    claims = dict(re.findall(r'<th scope="row">(\w+)</th><td data-label="Claimed">(.*)</tr>', page))
    assert claims["client"].endswith('<td data-label="Measured">at least 61.5</td>')
    assert claims["row"].endswith('<td data-label="Measured">not measured per row</td>')
    assert "hardly protects" in claims["node"]


OUTDATED = "signed over earlier files or with another key; build it again"


def wrong(folder: RunFolder, key: str | None = None) -> dict[str, str]:
    return {check.name: check.wrong for check in verify_run(folder, key) if check.wrong}


def test_a_signed_page_verifies_until_anything_changes(copied: RunFolder) -> None:
    page = build_report(copied)
    assert "not signed" in wrong(copied)["report.html"]
    sign_page(copied, page)
    assert wrong(copied) == {}
    assert "not by the key that was given" in wrong(copied, "00" * 32)["report.html"]
    findings = copied.path / "audit" / "findings.json"
    before = findings.read_text()
    findings.write_text(before.replace("LEAK", "NOT_DETECTED"))
    assert wrong(copied)["report.html"] == "changed since it was signed: audit/findings.json"
    findings.write_text(before)
    page.write_text(page.read_text().replace("52 of 140 at", "0 of 140 at"))
    assert wrong(copied)["report.html"] == "changed since it was signed: report.html"


def test_a_signed_page_that_was_taken_away_is_missed(copied: RunFolder) -> None:
    for page in (build_report(copied), build_dpo_page(copied)):
        sign_page(copied, page)
    (copied.path / "dpo.html").unlink()
    assert wrong(copied) == {"dpo.html": "it was signed and is not here"}


def test_manifest_signed_over_other_files_names_the_page_left_behind(
    copied: RunFolder,
) -> None:
    for page in (build_report(copied), build_dpo_page(copied)):
        sign_page(copied, page)
    assert wrong(copied) == {}
    record = copied.summary().transcript_chain
    file = FindingsFile.begin(copied.path / "audit", {"record": record}, anew=True)
    file.add([finding("VIOLATION")])
    file.close({})
    sign_page(copied, build_dpo_page(copied))
    assert wrong(copied) == {"report.html": OUTDATED}
    (copied.path / "report.html").unlink()
    assert wrong(copied) == {"report.html": "it was signed and is not here"}
    sign_page(copied, build_report(copied))
    assert wrong(copied) == {}


def test_manifest_signed_with_another_key_vouches_for_its_own_page_alone(
    copied: RunFolder, tmp_path: Path
) -> None:
    key = tmp_path / "own.key"
    key.write_text("11" * 32)
    sign_page(copied, build_report(copied), key)
    another = tmp_path / "another.key"
    another.write_text("22" * 32)
    sign_page(copied, build_dpo_page(copied), another)
    assert wrong(copied) == {"report.html": OUTDATED}


@pytest.mark.parametrize("has_own_key", [False, True])
def test_only_the_owner_of_a_signature_renews_it(
    copied: RunFolder, tmp_path: Path, has_own_key: bool
) -> None:
    sign_page(copied, build_report(copied))  # the run's own key, which is not the owner's
    key = tmp_path / "owner.key"
    key.write_text("11" * 32)
    sign_page(copied, build_report(copied), key)
    if not has_own_key:
        shutil.rmtree(copied.path / "private", ignore_errors=True)
    manifest = (copied.path / "manifest.json").read_bytes()
    completed = CliRunner().invoke(app, ["report", str(copied.path)])
    assert isinstance(completed.exception, InputError)
    assert "--key: found none, and manifest.json is signed by" in str(completed.exception)
    arguments = ["audit", str(copied.path), "--only", "membership_loss", "--seed", "7"]
    completed = CliRunner().invoke(app, arguments)
    assert completed.exit_code == 0
    assert "not renewed" in completed.output
    assert (copied.path / "manifest.json").read_bytes() == manifest
    assert (copied.path / "private").exists() == has_own_key
    assert "milder: --seed 7" in (copied.path / "report.html").read_text()
    assert CliRunner().invoke(app, ["report", str(copied.path), "--key", str(key)]).exit_code == 0
    assert "report.html" not in wrong(copied)


def test_manifest_that_was_edited_vouches_for_no_page(copied: RunFolder) -> None:
    for page in (build_report(copied), build_dpo_page(copied)):
        sign_page(copied, page)
    page, path = copied.path / "report.html", copied.path / "manifest.json"
    signed = file_digest(page)
    page.write_text("forged")
    path.write_text(path.read_text().replace(signed, file_digest(page)))
    assert set(wrong(copied)) == {"report.html", "dpo.html"}
    sign_page(copied, build_dpo_page(copied))
    assert wrong(copied) == {"report.html": OUTDATED}


def test_a_site_that_shared_nothing_is_in_the_first_sentence(tmp_path: Path) -> None:
    silent = [finding("NOT_DETECTED")]
    page = build_sites_page("run", ["a", "b", "c"], {"a": silent, "b": silent}, tmp_path / "p.html")
    head = page.read_text().partition("<main>")[0]
    assert "1 of 3 sites shared no findings: what can be learnt of their parts is not known" in head
    whole = build_sites_page("run", ["a"], {"a": silent}, tmp_path / "q.html").read_text()
    assert "shared no findings" not in whole


def test_another_key_does_not_make_an_old_signature_fit(copied: RunFolder, tmp_path: Path) -> None:
    sign_page(copied, build_report(copied))
    path = copied.path / "manifest.json"
    path.write_text(path.read_text().replace('"key": "', '"key": "00', 1))
    assert "does not fit" in wrong(copied)["report.html"]
    own = tmp_path / "own.key"
    own.write_text("11" * 32)
    sign_page(copied, build_report(copied), own)
    assert wrong(copied) == {}


def test_a_changed_message_is_found(copied: RunFolder) -> None:
    sign_page(copied, build_report(copied))
    path = copied.transcript / "messages.bin"
    body = bytearray(path.read_bytes())
    body[-3] ^= 1
    path.write_bytes(bytes(body))
    assert "transcript" in wrong(copied)


def test_the_commands_write_sign_and_verify(copied: RunFolder) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["report", str(copied.path), "--for", "dpo"]).exit_code == 0
    assert runner.invoke(app, ["verify", str(copied.path)]).exit_code == 0
    (copied.path / "dpo.html").write_text("another")
    assert runner.invoke(app, ["verify", str(copied.path)]).exit_code == 1


def test_an_audit_leaves_no_page_that_tells_of_earlier_findings(copied: RunFolder) -> None:
    """The printable page is there: it is brought up to date with the other, and signed."""
    sign_page(copied, build_dpo_page(copied))
    arguments = ["audit", str(copied.path), "--only", "membership_loss", "--seed", "7", "--quiet"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    for name in ("report.html", "dpo.html"):
        assert "milder: --seed 7" in (copied.path / name).read_text()
    assert all(not check.wrong for check in verify_run(copied) if check.name.endswith(".html"))


def test_an_audit_that_is_broken_off_says_so_on_the_pages(
    copied: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    build_report(copied)
    monkeypatch.setattr("audits.run.Auditing._play_all", stopped)
    arguments = ["audit", str(copied.path), "--only", "membership_loss", "--only", "promises"]
    assert CliRunner().invoke(app, arguments).exit_code != 0
    assert "an audit of this run has not ended" in (copied.path / "report.html").read_text()
