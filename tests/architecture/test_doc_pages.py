"""Pages have few words, name their reader and a next step, and show Python names that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGES = sorted(Path("docs").rglob("*.md"))
WITH_CODE = [*PAGES, Path("README.md"), Path("CONTRIBUTING.md"), *Path("examples").rglob("*.md")]
MOST_WORDS = 30_000
MOST_WORDS_OF_A_DEFINITION = 25
READER = re.compile(r"^\*For .+\.\*$")
NEXT = re.compile(r"^Next: \[.+\]\(.+\)")
IMPORTED = re.compile(r"from (securefg[\w.]*) import (\([^)]*\)|[\w, ]+)")
GROUP = re.compile(r"^(?:GROUP|DEFENCES): Final = \"([\w.]+)\"", re.M)
DOTTED = re.compile(r"(?<![\w./\[])securefg\.(?!org|git|yaml|json|sarif|toml)\w[\w.]*\w")


def count_words() -> int:
    """Return the words of tutorials, how-to pages and explanations, as `wc -w` counts."""
    read = [*Path("docs/tutorials").rglob("*.md"), *Path("docs/howto").rglob("*.md")]
    read += Path("docs/explanations").rglob("*.md")
    return sum(len(path.read_text().split()) for path in read)


def lines_of(page: Path) -> list[str]:
    return [line for line in page.read_text().splitlines() if line.strip()]


def missing_names(text: str) -> set[str]:
    """Return the names of securefg in a text that Python does not find."""
    named = {match.group(0) for match in DOTTED.finditer(text)}
    for module, names in IMPORTED.findall(text):
        named |= {f"{module}.{name}" for name in re.findall(r"\w+", names)}
    return {name for name in named - entry_points() if not is_there(name)}


def is_there(name: str) -> bool:
    """Return whether the module of a dotted name has the rest of it."""
    parts = name.split(".")
    length = max(n for n in range(1, len(parts) + 1) if source_of(parts[:n]))
    source, rest = source_of(parts[:length]), parts[length:]
    try:
        named_object = importlib.import_module(".".join(parts[:length]))
    except ModuleNotFoundError:  # it needs a library that is not installed here
        return source is not None and all(f'"{part}"' in source.read_text() for part in rest)
    for part in rest:
        if not hasattr(named_object, part):
            return False
        named_object = getattr(named_object, part)
    return True


def source_of(parts: list[str]) -> Path | None:
    """Return the file of a module, or None."""
    path = Path(*parts)
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in files if file.exists()), None)


def entry_points() -> set[str]:
    """Return the groups under which other packages register methods, attacks and defences."""
    sources = [*Path("securefg").rglob("*.py"), *Path("attacks").glob("*.py")]
    return {name for path in sources for name in GROUP.findall(path.read_text())}


def test_pages_to_read_have_at_most_30000_words() -> None:
    assert count_words() <= MOST_WORDS


def test_every_page_names_its_reader_on_its_second_line() -> None:
    assert [str(page) for page in PAGES if not READER.match(lines_of(page)[1])] == []


def test_every_page_ends_with_a_next_step() -> None:
    assert [str(page) for page in PAGES if not NEXT.match(lines_of(page)[-1])] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = Path("mkdocs.yml").read_text()
    assert [str(page) for page in PAGES if f": {page}\n" not in navigation] == []


def test_every_definition_of_the_glossary_is_short() -> None:
    rows = [line for line in lines_of(Path("docs/reference/glossary.md")) if line.startswith("|")]
    assert len(rows) - 2 <= 25
    definitions = {cells[1].strip(): cells[2] for row in rows[2:] if (cells := row.split("|"))}
    assert len(definitions) > 20
    lengths = {word: len(text.split()) for word, text in definitions.items()}
    assert {w: n for w, n in lengths.items() if n > MOST_WORDS_OF_A_DEFINITION} == {}


def test_every_python_name_on_a_page_exists() -> None:
    found = {str(page): missing_names(page.read_text()) for page in WITH_CODE}
    assert {page: names for page, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("from securefg import Attack, Targets", {"securefg.Targets"}),
        ("from securefg import (\n    Attack,\n    Gone,\n)", {"securefg.Gone"}),
        ("from securefg.runs.observing import Silent, Loud", {"securefg.runs.observing.Loud"}),
        ("`securefg.runn(x)` and securefg.run(y)", {"securefg.runn"}),
        ("securefg.runs.gone.Thing", {"securefg.runs.gone.Thing"}),
    ],
)
def test_a_name_that_is_gone_is_seen(text: str, missing: set[str]) -> None:
    assert missing_names(text) == missing


ENTRIES = ("record", "flower", "flare_filter", "epsilon", "ci")


def test_readme_links_to_every_entry_point() -> None:
    linked = Path("README.md").read_text()
    assert [name for name in ENTRIES if f"(docs/howto/{name}.md)" not in linked] == []
