"""The reference pages that are built from the code: settings from models, the API from docstrings.

The API is read from syntax trees, so that packages for other frameworks need not be installed.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from securefg.foundation.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
STABILITY, COMMANDS = "stability.md", "commands.md"
NAMES = {"str": "text", "Path": "path", "tuple": "list", "dict": "mapping", "Mapping": "mapping"}
PARAMETER = re.compile(r"^(\w[\w.,| ]*?)  +(\S.*)$")
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Page:
    """A page of the API: a title, its reader, and the modules whose public names it shows."""

    title: str
    reader: str
    modules: Sequence[str]


API = {
    "api_library.md": Page(
        "API: the library",
        "For researchers and engineers who work in Python.",
        (
            "securefg/api.py",
            "securefg/reports/objects.py",
            "securefg/runs/observing.py",
            "securefg/privacy/calculator.py",
            "securefg/privacy/sample_training.py",
            "securefg/protocol/recording.py",
        ),
    ),
    "api_methods.md": Page(
        "API: methods",
        "For researchers who write a method.",
        (
            "securefg/federation/roles.py",
            "securefg/federation/federation.py",
            "securefg/protocol/messages.py",
            "securefg/protocol/meanings.py",
            "securefg/protocol/bounds.py",
        ),
    ),
    "api_attacks.md": Page(
        "API: attacks",
        "For researchers who write an attack.",
        ("attacks/base.py", "attacks/questions.py"),
    ),
    "api_defences.md": Page(
        "API: defences",
        "For researchers who write a defence.",
        ("securefg/privacy/defence.py", "securefg/privacy/law.py"),
    ),
    "api_frameworks.md": Page(
        "API: other frameworks",
        "For engineers who run Flower or NVIDIA FLARE.",
        ("securefg/flower/recorded.py", "securefg/flower/gate.py", "securefg/site/gate.py"),
    ),
}


def write_reference(folder: Path) -> None:
    """Write all generated pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in API.items():
        (folder / name).write_text(api_page(page))
    (folder / "settings.md").write_text(settings_page())


# ------------------------------------------------------------------------------------------- API


def api_page(page: Page) -> str:
    """Return the Markdown of one page of the API."""
    parts = [f"# {page.title}", f"*{page.reader}*", "Built from the docstrings."]
    for path in page.modules:
        parts += module_parts(ROOT / path)
    return "\n\n".join([*parts, f"Next: [which names are stable]({STABILITY})"]) + "\n"


def module_parts(path: Path) -> Iterator[str]:
    """Yield the headings, signatures and docstrings of a module's public names."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    tree = ast.parse(path.read_text())
    yield f"## `{module}`"
    yield described(ast.get_docstring(tree) or "")
    for node in public_definitions(tree.body):
        yield f"### `{module}.{node.name}`"
        yield from definition_parts(node)


def public_definitions(body: Sequence[ast.stmt]) -> Iterator[Definition]:
    """Yield classes and functions whose names do not start with an underscore."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def definition_parts(node: Definition) -> Iterator[str]:
    """Yield signature and docstring of a class or function, and of a class's methods."""
    yield f"```python\n{signature(node)}\n```"
    yield described(ast.get_docstring(node) or "")
    if isinstance(node, ast.ClassDef):
        for method in public_definitions(node.body):
            text = described(ast.get_docstring(method) or "")
            yield f"**`{signature(method)}`**\n\n{text}"


def signature(node: Definition) -> str:
    """Return the line that defines a class or function, with types and defaults."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returned}"


def described(docstring: str) -> str:
    """Return a docstring as Markdown: lines `name  what it is` become a list."""
    lines: list[str] = []
    for line in docstring.splitlines():
        if found := PARAMETER.match(line):
            before = [""] if lines and lines[-1] and not lines[-1].startswith("- ") else []
            lines += [*before, f"- `{found[1].strip()}`: {found[2]}"]
        elif line.startswith(" ") and lines and lines[-1].startswith("- "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


# -------------------------------------------------------------------------------------- settings


def settings_page() -> str:
    """Return the Markdown of all settings, read from the models that parse a config."""
    from securefg.settings.config import RunConfig
    from securefg.settings.methods import method_names, method_settings
    from securefg.settings.partition import partition_names, partition_settings

    plugged = {
        **{f"method: {{name: {name}}}": method_settings(name) for name in method_names()},
        **{f"partition: {{name: {name}}}": partition_settings(name) for name in partition_names()},
    }
    parts = [
        "# Settings",
        "*For everybody who writes a config.*",
        "Built from the models that read a config. Set a key in the file, or with `--set "
        "key=value`. `securefg init DIR` writes a commented config.",
        "## The config",
        *model_tables(RunConfig, ""),
    ]
    for heading, model in plugged.items():
        parts += [f"## `{heading}`", *model_tables(model, f"{heading.partition(':')[0]}.")]
    return "\n\n".join([*parts, f"Next: [commands]({COMMANDS})"]) + "\n"


def model_tables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield the table of a model's own keys, then those of the models inside it."""
    inner: list[tuple[str, type[BaseModel]]] = []
    text, documented = split_docstring(model.__doc__ or "", set(model.model_fields))
    if issubclass(model, Settings):
        documented |= model.describe_fields()
    rows = ["| key | type | default | what it is |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        part = model_inside(field.annotation)
        if len(get_args(field.annotation)) == 1 and get_origin(field.annotation) is Literal:
            continue  # the name in the heading
        if part is None:
            rows.append(setting_row(f"{prefix}{name}", field, documented.get(name, "")))
        elif part.model_fields:
            inner.append((f"{prefix}{name}.", part))
    if len(rows) > 2:
        yield text
        yield "\n".join(rows)
    for path, part in inner:
        yield f"### `{path[:-1]}`"
        yield from model_tables(part, path)


def split_docstring(docstring: str, keys: set[str]) -> tuple[str, dict[str, str]]:
    """Return a docstring's text, and what its list says of each key."""
    items: dict[str, str] = {}
    text: list[str] = []
    for line in described(inspect.cleandoc(docstring)).splitlines():
        names, _, description = line.removeprefix("- `").partition("`: ")
        listed = set(re.split(r"[, ]+", names)) if line.startswith("- `") else set()
        if listed & keys:
            items |= dict.fromkeys(listed & keys, description)
        else:
            text.append(line)
    return "\n".join(text).strip(), items


def model_inside(annotation: Any) -> type[BaseModel] | None:
    """Return the settings model of a key that holds further keys."""
    from securefg.settings.methods import MethodSettings
    from securefg.settings.partition import PartitionSettings

    kinds = getattr(annotation, "__args__", (annotation,))
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind if not issubclass(kind, MethodSettings | PartitionSettings) else None
    return None


def setting_row(key: str, field: FieldInfo, documented: str) -> str:
    """Return the row of one key."""
    default = field.get_default(call_default_factory=True)
    default = getattr(default, "name", default)
    shown = "required" if field.is_required() else f"`{default}`"
    cells = (f"`{key}`", type_text(field.annotation), shown, documented)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def type_text(annotation: Any) -> str:
    """Return a type as a reader writes it: `int or null`, or the allowed values."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Annotated:
        return type_text(parts[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if origin in (Union, UnionType):
        return " or ".join(map(type_text, parts))
    if origin is not None:
        inside = ", ".join(type_text(part) for part in parts if part is not Ellipsis)
        return f"{NAMES.get(origin.__name__, origin.__name__)} of {inside}"
    name = getattr(annotation, "__name__", str(annotation))
    return NAMES.get(name, name)


if __name__ == "__main__":
    write_reference(ROOT / "build" / "reference")
