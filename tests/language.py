"""Measure the plain English of docs, docstrings and names, and list the offenders.

    python tests/language.py                 # the shares, and how far they are from their aims
    python tests/language.py --list 20       # and the first offenders of every measure
    python tests/language.py --check         # exit 1 where a share is above its limit

A sentence opens oddly with What, Whoever, Where, Of, Such or So. A semicolon joins two facts,
except in the form of errors, `found X; expected Y`. A public name is undocumented without a
docstring. A vague variable is a variable or parameter of a function that is called found, own,
said, so, told or one and is used over more than three lines, in any tracked Python file. A limit
is the aim or, if the aim is not reached, today's share.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("securefg", "attacks", "audits")
ODD = re.compile(r"^(?:What|Whoever|Whatever|Where|Wherever|Of|Such|So)\b")
QUESTION = re.compile(r"\?$")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*\"'(])")
ERROR_FORM = re.compile(r"found [^;]*; expected")
CODE = re.compile(r"`[^`]*`")
AIMS = {
    "odd openings": 0.015,
    "semicolons": 0.04,
    "one-word functions": 0.25,
    "undocumented names": 0.05,
    "vague variables": 0.0,
}
LIMITS = {
    "odd openings": 0.012,
    "semicolons": 0.03,
    "one-word functions": 0.17,
    "undocumented names": 0.01,
    "vague variables": 0.0,
}
VAGUE_NAMES = {"found", "own", "said", "so", "told", "one"}
VAGUE_LINES = 3
EXEMPT_VARIABLES = {"securefg/cli/deploy.py: install: own"}  # a command's argument is its interface
EXEMPT_NAMES = {
    "main",
    "forward",
    "backward",
    "get",
    "items",
    "keys",
    "values",
    "close",
    "save",
    "load",
}


@dataclass
class Measure:
    """How many of some items are offenders, and which."""

    total: int = 0
    offenders: list[str] = field(default_factory=list)

    def add(self, is_offender: bool, where: str) -> None:
        """Count an item."""
        self.total += 1
        if is_offender:
            self.offenders.append(where)

    @property
    def share(self) -> float:
        """Return the offenders' share."""
        return len(self.offenders) / max(self.total, 1)


def page_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown page, without code, tables, headings and comments."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    blocks = re.split(r"\n\s*\n", text)
    for block in blocks:
        lines = [line for line in block.splitlines() if not re.match(r"\s*(\||#|    )", line)]
        for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines)):
            yield from split_sentences(re.sub(r"^\s*(?:[-*]|\d+\.) +", "", item))


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph."""
    flat = " ".join(text.split())
    for sentence in SENTENCE_END.split(flat):
        if len(sentence.split()) > 2:
            yield sentence


def docstrings_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every docstring of a module with its line."""
    tree = ast.parse(path.read_text())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), re.split(r"\n\s*\n(?=    )|\n(?=\S+  )", text)[0]


def function_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the public names of functions and methods that no protocol of Python prescribes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and not is_prescribed(node):
            yield node.lineno, node.name.strip("_")


def public_names(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the public classes, functions and methods, and whether each has a docstring."""
    open_nodes = [("", node) for node in ast.parse(path.read_text()).body]
    while open_nodes:
        owner, node = open_nodes.pop(0)
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(node, kinds) or node.name.startswith("_"):
            continue
        name = f"{owner}{node.name}"
        yield node.lineno, name, ast.get_docstring(node) is not None
        if isinstance(node, ast.ClassDef):
            open_nodes += [(f"{name}.", part) for part in node.body]


def is_prescribed(node: ast.FunctionDef) -> bool:
    """Return whether Python, a property or a command decides the name."""
    if node.name.startswith("__") or node.name in EXEMPT_NAMES:
        return True
    marks = {ast.unparse(mark).partition("(")[0].rpartition(".")[2] for mark in node.decorator_list}
    return bool(marks & {"property", "cached_property", "setter", "command", "overload"})


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef, ast.Lambda)


def variable_lines(path: Path) -> Iterator[tuple[str, str, list[int]]]:
    """Yield every variable of every function: the function, the name and the lines that use it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, FUNCTIONS):
            used = list(scope_names(node))
            for name in sorted({name for name, _, is_bound in used if is_bound}):
                yield node.name, name, sorted(line for other, line, _ in used if other == name)


def scope_names(scope: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield the names of a scope, their lines and whether the scope binds them there.

    An inner scope adds the names that it takes from outside.
    """
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name, node.lineno, True
        if isinstance(node, SCOPES):
            inner = list(scope_names(node))
            bound = {name for name, _, is_bound in inner if is_bound}
            yield from (item for item in inner if item[0] not in bound)
            continue
        if isinstance(node, ast.Name):
            yield node.id, node.lineno, isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, True
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name, node.lineno, True
        yield from scope_names(node)


def tracked_files(root: Path) -> list[Path]:
    """Return the Python files that git tracks and that are there."""
    command = ["git", "ls-files", "-z", "--", "*.py"]
    printed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    paths = [root / name for name in sorted(printed.split("\0")) if name]
    return [path for path in paths if path.is_file()]


def measure_variables(root: Path) -> Measure:
    """Return the measure of vague variables over the tracked files."""
    measure = Measure()
    for path in tracked_files(root):
        place = path.relative_to(root).as_posix()
        for function, name, lines in variable_lines(path):
            is_long = lines[-1] - lines[0] > VAGUE_LINES
            is_exempt = f"{place}: {function}: {name}" in EXEMPT_VARIABLES
            is_vague = name in VAGUE_NAMES and is_long and not is_exempt
            measure.add(is_vague, f"{place}:{lines[0]}: {function}: {name}")
    return measure


def measure_language(root: Path = ROOT) -> dict[str, Measure]:
    """Return every measure over the docs and the packages."""
    measures = {name: Measure() for name in AIMS}
    measures["vague variables"] = measure_variables(root)
    for where, sentence in all_sentences(root):
        is_odd = bool(ODD.match(sentence)) and not QUESTION.search(sentence)
        measures["odd openings"].add(is_odd, f"{where}: {sentence[:90]}")
        joined = ";" in ERROR_FORM.sub("", CODE.sub("", sentence))
        measures["semicolons"].add(joined, f"{where}: {sentence[:90]}")
    for path in python_files(root):
        for line, name in function_names(path):
            where = f"{path.relative_to(root)}:{line}: {name}"
            measures["one-word functions"].add("_" not in name, where)
        for line, name, is_documented in public_names(path):
            where = f"{path.relative_to(root)}:{line}: {name}"
            measures["undocumented names"].add(not is_documented, where)
    return measures


def all_sentences(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every sentence of pages and docstrings with its place."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    for page in pages:
        for sentence in page_sentences(page.read_text()):
            yield str(page.relative_to(root)), sentence
    for path in python_files(root):
        for line, text in docstrings_of(path):
            for sentence in split_sentences(text):
                yield f"{path.relative_to(root)}:{line}", sentence


def python_files(root: Path) -> list[Path]:
    """Return the modules of all packages."""
    return sorted(path for name in PACKAGES for path in (root / name).rglob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", type=int, default=0, metavar="N", help="offenders to print")
    parser.add_argument("--check", action="store_true", help="exit 1 above a limit")
    asked = parser.parse_args()
    failed = False
    for name, measure in measure_language().items():
        is_above = measure.share > LIMITS[name]
        failed |= is_above
        counts = f"{len(measure.offenders)} of {measure.total}"
        print(f"{name}: {measure.share:.3f} ({counts}); aim {AIMS[name]}, limit {LIMITS[name]}")
        for offender in measure.offenders[: asked.list]:
            print(f"  {offender}")
    sys.exit(1 if asked.check and failed else 0)


if __name__ == "__main__":
    main()
