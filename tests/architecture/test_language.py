"""The measure of plain English sees what it is meant to see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.language import measure_language

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("docs", "securefg", "attacks", "audits"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("# Head\n\nWhat it does is odd. The rest is plain.\n")
    (tmp_path / "docs" / "page.md").write_text(
        "- One fact; another fact.\n- The key: found 3; expected 4.\n\n    So a block; of code\n"
    )
    head, body = '"""Hold a thing."""\n\n\n', '    """Of one."""\n\n\n'
    code = f"{head}def told() -> None:\n{body}def tell_all() -> None: ...\n"
    (tmp_path / "securefg" / "one.py").write_text(code)
    return tmp_path


def test_language_offenders_of_every_kind_are_counted(project: Path) -> None:
    found = {name: len(m.offenders) for name, m in measure_language(project).items()}
    assert found == {
        "odd openings": 1,
        "semicolons": 1,
        "one-word functions": 1,
        "undocumented names": 1,
    }


def test_language_offender_names_its_place(project: Path) -> None:
    (offender,) = measure_language(project)["one-word functions"].offenders
    assert offender == "securefg/one.py:4: told"


def test_language_undocumented_method_is_named_by_its_class(tmp_path: Path) -> None:
    for name in ("docs", "securefg"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("")
    shown = 'class Open:\n    """A thing."""\n\n    def find_it(self): ...\n'
    hidden = "    def _hide(self): ...\n\n\nclass _Closed:\n    def find_it(self): ...\n"
    (tmp_path / "securefg" / "two.py").write_text(shown + hidden)
    measure = measure_language(tmp_path)["undocumented names"]
    assert (measure.total, measure.offenders) == (2, ["securefg/two.py:4: Open.find_it"])


def test_version_is_the_same_everywhere() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    assert all((ROOT / report["filename"]).is_file() for report in citation["references"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.stem)
def test_hosted_files_are_yaml_with_a_name(path: Path) -> None:
    parsed = yaml.safe_load(path.read_text())
    assert path.stem == "config" or parsed["name"]
