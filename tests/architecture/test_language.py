"""The measure of plain English sees what it is meant to see."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.language import EXEMPT_VARIABLES, ROOT, measure_language, variable_lines

LONG_USE = "    {0} = []\n    {0}.append(1)\n    {0}.append(2)\n    {0}.append(3)\n    return {0}\n"


def track_files(folder: Path) -> None:
    for command in (["init", "-q"], ["add"]):
        subprocess.run(["git", *command, "."], cwd=folder, check=True)


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
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "two.py").write_text(f"def list_all():\n{LONG_USE.format('found')}")
    track_files(tmp_path)
    return tmp_path


def test_language_offenders_of_every_kind_are_counted(project: Path) -> None:
    found = {name: len(m.offenders) for name, m in measure_language(project).items()}
    assert found == {
        "odd openings": 1,
        "semicolons": 1,
        "one-word functions": 1,
        "undocumented names": 1,
        "vague variables": 1,
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
    track_files(tmp_path)
    measure = measure_language(tmp_path)["undocumented names"]
    assert (measure.total, measure.offenders) == (2, ["securefg/two.py:4: Open.find_it"])


def test_language_vague_variable_names_file_line_and_function(project: Path) -> None:
    measure = measure_language(project)["vague variables"]
    assert measure.offenders == ["tests/two.py:2: list_all: found"]


@pytest.mark.parametrize(
    ("code", "vague"),
    [
        (f"def list_all():\n{LONG_USE.format('own_rows')}", 0),
        ("def list_all(own):\n    a = 1\n    b = 2\n    return own\n", 0),
        ("def list_all(own):\n    a = 1\n    b = 2\n    c = 3\n    return own\n", 1),
        ("def a():\n    one = 1\n\n    def b():\n        pass\n        return one\n", 1),
        ("def a():\n    one = 1\n\n    def b(one):\n        pass\n    return b\n", 0),
        ("def a():\n    x = [one for one in y]\n\n\n\n    return [one for one in y]\n", 0),
        ("def a():\n    def told():\n        pass\n\n\n    return told\n", 1),
        ("def a():\n    try:\n        b()\n    except E as so:\n\n\n\n        c(so)\n", 1),
        ("class A:\n    own: int\n\n\n\n    told = own\n", 0),
    ],
    ids=["noun", "3", "4", "inner use", "inner own", "short", "function", "except", "class"],
)
def test_language_variable_beyond_three_lines_is_vague(
    tmp_path: Path, code: str, vague: int
) -> None:
    for name in ("docs", "securefg"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("")
    (tmp_path / "setup.py").write_text(code)
    track_files(tmp_path)
    assert len(measure_language(tmp_path)["vague variables"].offenders) == vague


def test_language_untracked_file_has_no_vague_variables(project: Path) -> None:
    (project / "notes.py").write_text(f"def list_all():\n{LONG_USE.format('told')}")
    assert len(measure_language(project)["vague variables"].offenders) == 1


def test_language_exempt_variables_are_still_vague() -> None:
    for exempt in EXEMPT_VARIABLES:
        path, function, name = exempt.split(": ")
        lines = {item[:2]: item[2] for item in variable_lines(ROOT / path)}[function, name]
        assert lines[-1] - lines[0] > 3


def test_version_is_the_same_everywhere() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    assert all((ROOT / report["filename"]).is_file() for report in citation["references"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.stem)
def test_hosted_files_are_yaml_with_a_name(path: Path) -> None:
    parsed = yaml.safe_load(path.read_text())
    assert path.stem == "config" or parsed["name"]
