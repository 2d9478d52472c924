"""The pages about mechanisms and masking say what is true."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.federation.roles import PublicInfo
from securefg.methods.registry import get_method
from securefg.privacy.policy import Policy, make_policy
from securefg.runs import choosing
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.privacy import shipped_defences
from securefg.settings.secagg import SecureAggregationSettings

DOCS = Path(__file__).parents[3] / "docs" / "explanations"
PAGES = [DOCS / "masking.md", *sorted((DOCS / "mechanisms").glob("*.md"))]


def snippets(language: str) -> list[tuple[str, str]]:
    pattern = rf"```{language}\n(.*?)```"
    return [(p.stem, s) for p in PAGES for s in re.findall(pattern, p.read_text(), re.DOTALL)]


def settled(config: RunConfig) -> Policy:
    """What a run with six clients on Cora would settle before its first round; with a client per
    node, one on six nodes."""
    num_nodes = 6 if config.partition.name == "one_node" else 2708
    info = PublicInfo(num_nodes, 1433, 7, 6, config.seed, torch.device("cpu"))
    config = choosing.settle_config(config, info)
    planned = get_method(config.method.name).planned(config.method, config.training, info)
    return make_policy(config.privacy, planned, num_clients=6)


@pytest.mark.parametrize(("page", "snippet"), snippets("yaml"))
def test_every_config_on_a_page_can_be_run(page: str, snippet: str) -> None:
    config = parse_config(yaml.safe_load(snippet))
    assert settled(config).rules


@pytest.mark.parametrize(
    ("page", "snippet"), [s for s in snippets("yaml") if s[0] in shipped_defences()]
)
def test_a_mechanisms_config_uses_the_mechanism_of_its_page(page: str, snippet: str) -> None:
    names = {rule.name for rule in settled(parse_config(yaml.safe_load(snippet))).rules.values()}
    assert page in names


def test_every_mechanism_has_a_page() -> None:
    assert {*shipped_defences(), "secure_aggregation"} == {p.stem for p in PAGES[1:]}


def test_the_page_on_secure_aggregation_shows_every_key_with_its_default() -> None:
    ((_, snippet),) = [s for s in snippets("yaml") if s[0] == "secure_aggregation"]
    shown = yaml.safe_load(snippet)["privacy"]["secure_aggregation"]
    assert shown == SecureAggregationSettings().model_dump()


EXPECTED = {
    "masking": r"\[False, False, True, False\] 0\.25\n",
    "dp_sgd": r"epsilon per sample \d\.\d\d\n",
}


@pytest.mark.parametrize(("page", "snippet"), snippets("python"))
def test_every_example_runs_as_it_stands(
    page: str, snippet: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(snippet, f"{page}.md", "exec"), {})
    assert re.fullmatch(EXPECTED[page], capsys.readouterr().out)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    assert all((page.parent / link).exists() for link in links)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.stem)
def test_every_mechanism_states_claim_unit_assumption_and_argument(page: Path) -> None:
    text = page.read_text()
    words = ("**Claim.**", "**Unit", "ssumption", "rgument", "## Sharp edges")
    assert [word for word in words if word not in text] == []


EXPLAINED = re.compile(r"^    securefg explain (\w+)\n\n((?:    .+\n)+)", re.M)


def explained() -> dict[str, set[str]]:
    """Return the lines that pages show of `securefg explain`, by config."""
    shown: dict[str, set[str]] = {}
    for page in DOCS.rglob("*.md"):
        for config, block in EXPLAINED.findall(page.read_text()):
            shown.setdefault(config, set()).update(block.splitlines())
    return shown


@pytest.mark.parametrize("config", sorted(explained()))
def test_explain_prints_what_the_pages_show(config: str) -> None:
    if "cora" in config and not os.environ.get("SECUREFG_DATA"):
        pytest.skip("SECUREFG_DATA is not set: it names the folder with the published datasets")
    done = CliRunner().invoke(app, ["explain", config], env={"COLUMNS": "80"})
    printed = " ".join(done.output.split())
    lines = {" ".join(line.removesuffix("…").split()) for line in explained()[config]}
    assert done.exit_code == 0
    assert {line for line in lines if line not in printed} == set()


def test_pages_show_the_output_of_explain() -> None:
    assert len(explained()) >= 4
