"""Every command line of README, docs and examples is carried out, or listed here with a reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from audits.curves.command import load_curve, plan_curve, refuse_impossible
from securefg.settings.shipped import find_config
from tests.e2e.shell_lines import carried_out, documented, lines_of, wanted_exit, words_of

ROOT = Path.cwd()


@dataclass(frozen=True)
class Here:
    """Carried out by this file, with `more` to make it small; `slow` by `make test-all` alone."""

    more: tuple[str, ...] = ()
    slow: bool = False


@dataclass(frozen=True)
class By:
    """Carried out by another test, `file::function`."""

    test: str


@dataclass(frozen=True)
class Not:
    """Not carried out as it stands."""

    reason: str


@dataclass(frozen=True)
class Planned:
    """A curve of minutes to hours: everything up to its first run, for its least and its largest
    epsilon; `test_curve.py` draws a small one."""


How = Here | By | Not | Planned
ROUND = ("--fresh", "--set", "training.rounds=1")
QUICK = ("--quick", "--jobs", "1", "--seeds", "1")
PARTS = By("test_flare_docs.py::test_the_way_to_four_banks")
BANKS = By("test_bank_example.py::test_the_banks_run_audit_report_verify_and_draw_a_curve")
ALL_BANKS = By("test_bank_example.py::test_one_script_goes_from_tables_to_the_curve")
DEPLOYED = By("test_bank_example.py::test_one_script_deploys_the_four_banks")
OPERATED = By("test_flare_operations.py::test_operator_stops_resumes_and_cleans_a_deployment")
REHEARSED = By("test_flare_operations.py::test_rehearsal_of_two_sites_runs_and_ends")
FILTER = By("test_flare_filter.py::test_flares_own_job_with_and_without_the_filter")
GATE = By("../unit/site/test_gate.py::test_the_documented_commands_open_a_home_and_show_its_books")
NUMPY = By("test_audit_docs.py::test_the_example_leaks_then_keeps_and_breaks_its_promise")
VERDICT = By("test_audit_docs.py::test_the_way_from_run_to_verdict")
SITES = By("../unit/flare/test_site_audits.py::test_a_site_that_shares_nothing_is_named")
WHEEL = By("test_wheel.py::test_a_shipped_config_runs_and_is_audited_in_an_empty_folder")
OWN = By("test_own_code.py::test_a_method_that_nobody_knows_is_attacked_and_its_leak_is_found")
ATTACK = By("test_own_code.py::test_an_attack_from_outside_the_packages_runs")
NETWORK = By("test_own_code.py::test_a_network_from_a_users_file_trains_under_masks_in_processes")
OWN_DATA = By("test_own_code.py::test_own_dataset_and_partition_run_and_need_trust_to_be_audited")
OWN_DEFENCE = By("test_own_code.py::test_own_defence_runs_is_audited_and_drawn_as_a_curve")
TABLES = By("test_documented.py::test_the_page_on_tables_is_gone_from_top_to_bottom")
RESUMED = By("test_interrupt.py::test_ctrl_c_leaves_a_run_that_can_be_resumed")
DEMO = By("test_readme.py::test_demo_run_can_be_reported_and_verified")
CLOCK = By("../unit/site/test_clock.py::test_clock_command_corrects_the_books_of_a_kit")
SCORES = By(
    "../unit/flare/test_federation_over_packets.py::"
    "test_sites_of_a_rare_class_tell_average_precision_and_keep_alerts"
)
ROLES = By("test_roles.py::test_page_of_a_role_is_gone_from_top_to_bottom")
OPERATOR = By("test_roles.py::test_page_of_an_operator_is_gone_from_top_to_bottom")
RECORDED = By("../unit/protocol/test_recording.py::test_record_page_example_leaks_as_it_says")
EXPLAINED = By("../unit/privacy/test_mechanism_pages.py::test_explain_prints_what_the_pages_show")
CALCULATED = By("../unit/privacy/test_calculator.py::test_epsilon_page_commands_print_what_it_says")
FLOWER = Not("needs Flower's own environment (make test-flower)")
ERASED = By("../unit/runs/test_erasure.py::test_erase_command_tells_what_each_group_pays")
READERS = Not("stands for a module of the reader's")

TABLE: list[tuple[str, str, How]] = [
    # page, beginning of the line, how; the first that fits counts
    ("", "make ", Not("the targets that CI itself runs")),
    ("", "pip install", By("test_wheel.py::test_the_library_runs_from_the_wheel")),
    ("README.md", "securefg init", Here(slow=True)),
    ("README.md", "python examples/fedavg_numpy", NUMPY),
    ("README.md", "securefg audit examples-out", NUMPY),
    ("README.md", "securefg explain", Here(slow=True)),
    ("README.md", "securefg report runs/quickstart", DEMO),
    ("README.md", "securefg verify runs/quickstart", DEMO),
    ("docs/reference/commands.md", "securefg run --resume", RESUMED),
    ("docs/howto/install.md", "securefg demo", DEMO),
    ("docs/howto/audit.md", "securefg deploy ", SITES),
    ("docs/howto/audit.md", "securefg run configs/", VERDICT),
    ("docs/howto/audit.md", "securefg audit runs/quickstart", VERDICT),
    ("docs/howto/audit.md", "securefg audit runs/noised", VERDICT),
    ("docs/howto/audit.md", "securefg rehearse ", Here(("--only", "silenced_client"), slow=True)),
    ("docs/howto/audit.md", "", BANKS),
    ("docs/explanations/", "securefg audit runs/quickstart", VERDICT),
    ("examples/banks", "bash examples/banks/all.sh", ALL_BANKS),
    ("examples/banks", "bash examples/banks/deploy.sh", DEPLOYED),
    ("examples/banks", "securefg data check", TABLES),
    ("examples/banks", "", BANKS),
    ("docs/tutorials/operator.md", "", OPERATOR),
    ("docs/tutorials/", "securefg curve ", Planned()),
    ("docs/tutorials/", "securefg deploy ", OPERATOR),
    ("docs/tutorials/", "", ROLES),
    ("examples/aml", "", Not("needs the files of AMLGentex, which are not in the repository")),
    ("examples/fedavg_numpy", "", NUMPY),
    ("docs/howto/tables.md", "", TABLES),
    ("docs/reference/threats.md", "securefg deploy clock", CLOCK),
    ("docs/explanations/deployment_threats.md", "securefg deploy check", PARTS),
    (
        "docs/reference/pages.md",
        "python -m tests.e2e.pictures",
        Not("takes pictures with a browser, of pages that other lines make"),
    ),
    ("docs/howto/flare.md", "securefg deploy ", PARTS),
    ("docs/howto/operator.md", "securefg deploy audit", SITES),
    ("docs/howto/operator.md", "securefg deploy assemble", SITES),
    ("docs/howto/operator.md", "securefg deploy rehearse", REHEARSED),
    ("docs/howto/operator.md", "securefg deploy ", OPERATED),
    ("docs/howto/operator.md", "python -m tests.e2e.flare_lost_sites", OPERATED),
    ("docs/howto/rare_classes.md", "securefg deploy scores", SCORES),
    ("docs/howto/record.md", "", RECORDED),
    ("docs/howto/erasure.md", "", ERASED),
    ("docs/howto/epsilon.md", "", CALCULATED),
    ("docs/research/gates_measured.md", "python examples/flower_digits", FLOWER),
    ("docs/research/gates_measured.md", ".venv-flower/", FLOWER),
    ("docs/research/gates_measured.md", "python examples/nvflare_filter", FILTER),
    ("docs/research/gates_measured.md", "securefg deploy ledger", GATE),
    ("docs/howto/flare_filter.md", "securefg deploy ", GATE),
    ("docs/howto/install.md", "securefg init", Here()),
    ("docs/howto/install.md", "securefg run project/", Here(ROUND)),
    ("docs/howto/install.md", "", WHEEL),
    ("docs/howto/own_method.md", "", OWN),
    ("docs/reference/data.md", "securefg run two_rings.yaml", OWN_DATA),
    ("docs/howto/own_attack.md", "", ATTACK),
    ("docs/howto/own_defence.md", "", OWN_DEFENCE),
    ("docs/howto/own_network.md", "", NETWORK),
    (
        "docs/research/private_settings.md",
        "python examples/aml",
        Not("needs the files of AMLGentex"),
    ),
    ("docs/research/other_defences.md", "securefg audit mechanism my_package", READERS),
    ("", "securefg list", Here()),
    ("", "securefg config schema", Here()),
    ("", "securefg reproduce list", Here()),
    (
        "",
        "securefg reproduce fedgl-table2 --quick",
        Here(("--jobs", "1", "--seeds", "1"), slow=True),
    ),
    ("", "securefg reproduce all", Not("every table: hours; each is listed by itself")),
    ("", "securefg reproduce ", Here(QUICK, slow=True)),
    ("", "securefg curve ", Planned()),
    ("", "securefg plan ", Here(slow=True)),
    ("docs/explanations/", "securefg explain ", EXPLAINED),
    ("", "securefg run ", Here(ROUND, slow=True)),
    ("", "securefg audit ", Here(("--only", "promises"), slow=True)),
    ("", "securefg report ", Here(slow=True)),
    ("", "securefg compare ", Here(slow=True)),
    ("", "python benchmarks/", Here(("--help",), slow=True)),
    ("", "python -m pytest", Not("a test of this suite")),
]


def how(page: str, line: str) -> How | None:
    """The first row of the table that fits."""
    for where, begins, found in TABLE:
        if page.startswith(where) and line.startswith(begins):
            return found
    return None


ALL = [(page, line) for page, lines in documented().items() for line in lines]
QUICK_PAGES = sorted({p for p, x in ALL if isinstance(h := how(p, x), Here) and not h.slow})
SLOW_PAGES = sorted({p for p, x in ALL if isinstance(h := how(p, x), Here) and h.slow})


def test_no_command_is_left_out() -> None:
    assert len(ALL) > 150
    unlisted = [f"{page}: {line}" for page, line in ALL if how(page, line) is None]
    assert not unlisted, "not in the table of this file:\n" + "\n".join(unlisted)


def test_no_row_of_the_table_is_idle() -> None:
    used = [how(page, line) for page, line in ALL]
    idle = [row for row in TABLE if not any(one is row[2] for one in used)]
    assert idle == []


@pytest.mark.parametrize("test", sorted({row[2].test for row in TABLE if isinstance(row[2], By)}))
def test_the_other_test_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / "tests/e2e" / file).read_text(), re.MULTILINE)


def test_a_new_command_would_be_seen() -> None:
    page = "Try\n\n    securefg frobnicate x\n\n```bash\n# a comment\nls -l \\\n  here\n```\n"
    assert lines_of(page) == ["ls -l    here", "securefg frobnicate x"]
    assert how("docs/new.md", "ls -l    here") is None
    assert how("docs/new.md", "securefg frobnicate x") is None


def carry_out(page: str, slow: bool) -> list[str]:
    """All of a page's lines that this file is to carry out, in order; the faults."""
    for name in ("configs", "benchmarks", "papers", "tests", "docs"):
        Path(name).symlink_to(ROOT / name)
    faults = []
    for line in [line for where, line in ALL if where == page]:
        found = how(page, line)
        if isinstance(found, Here) and found.slow == slow:
            code, told = carried_out([*words_of(line), *found.more])
            if code != wanted_exit(line):
                faults.append(f"{line}: exit {code}: {told[-600:]}")
    return faults


@pytest.mark.parametrize("page", QUICK_PAGES)
def test_quick_commands_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert carry_out(page, slow=False) == []


CURVES = sorted({words_of(x)[2] for p, x in ALL if isinstance(how(p, x), Planned)})


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_long_curves_are_ready_to_run(name: str, tmp_path: Path) -> None:
    path = find_config(Path(name))
    curve = load_curve(path, [])
    refuse_impossible(plan_curve(curve, path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW_PAGES)
def test_long_commands_run_made_small(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert carry_out(page, slow=True) == []
