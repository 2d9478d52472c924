"""The wheel alone, outside the checkout: it has the packages as they are and runs by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[2]
PARTS = ("securefg", "attacks", "audits", "configs")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for part in PARTS:
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, source / part, ignore=leave)
    for file in FILES:
        shutil.copy(ROOT / file, source / file)
    made = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, str(made)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return next(made.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it depends on, and no trace of the checkout.

    Libraries come from the environment of the tests by a path alone, which leaves out its own
    `.pth` files and so its editable install.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    site = Path(
        sysconfig.get_path(
            "purelib", vars={"base": str(home), "platbase": str(home)}, scheme="venv"
        )
    )
    (site / "libraries.pth").write_text(f"{Path(typer.__file__).parents[1]}\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return home / "bin" / "python"


def outside(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SECUREFG_DATA")}
    return subprocess.run(
        [str(python), *arguments],
        cwd=folder,
        env={**env, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def test_wheel_holds_the_three_packages(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    packages = {name for name in names if not name.endswith(".dist-info")}
    assert packages == {"securefg", "attacks", "audits"}


def test_wheel_modules_equal_the_repository(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    modules = {name for name in archive.namelist() if name.endswith(".py")}
    packages = ("securefg", "attacks", "audits")
    files = {str(path.relative_to(ROOT)) for top in packages for path in (ROOT / top).rglob("*.py")}
    assert modules == files
    assert [name for name in modules if archive.read(name) != (ROOT / name).read_bytes()] == []


def test_wheel_holds_the_digests_of_published_files(wheel: Path) -> None:
    assert "securefg/data/readers/SHA256SUMS" in zipfile.ZipFile(wheel).namelist()


@pytest.mark.parametrize(
    "code", ["import securefg; securefg.run", "import securefg; securefg.View"]
)
@pytest.mark.parametrize("name", ["attacks", "audits"])
def test_start_with_a_shadowed_package_is_refused(
    python: Path, tmp_path: Path, name: str, code: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    expected = f"package '{name}': found {tmp_path / name}.py; expected {python.parents[1]}"
    command = outside(python, tmp_path, "-m", "securefg", "list", "methods")
    assert command.returncode == 2
    assert expected in command.stderr
    library = outside(python, tmp_path, "-c", f"{code}('quickstart')")
    assert expected in library.stderr


def test_a_shipped_config_runs_and_is_audited_in_an_empty_folder(
    python: Path, tmp_path: Path
) -> None:
    small = ("--set", "training.rounds=2", "--set", "output.transcript_every=1")
    ran = outside(python, tmp_path, "-m", "securefg", "run", "quickstart", "--json", *small)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["rounds"] == 2
    (run,) = (tmp_path / "runs").iterdir()
    audited = outside(
        python, tmp_path, "-m", "securefg", "audit", str(run), "--only", "similar_links"
    )
    assert audited.returncode == 0, audited.stderr
    assert "Who is connected to whom" in audited.stdout


def test_what_stays_in_the_checkout_is_said(python: Path, tmp_path: Path) -> None:
    done = outside(python, tmp_path, "-m", "securefg", "reproduce", "list")
    assert done.returncode == 2
    assert "checkout of the repository" in done.stderr


def test_the_library_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    code = (
        "import securefg\n"
        "small = ['training.rounds=2', 'data.csbm.num_nodes=200']\n"
        "run = securefg.run('quickstart', overrides=small)\n"
        "assert 0 < run.summary.test_accuracy <= 1 and len(run.metrics()) == 2\n"
        "from securefg import Attack\n"
        "print(Attack.__module__)\n"
    )
    done = outside(python, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "attacks.base"
