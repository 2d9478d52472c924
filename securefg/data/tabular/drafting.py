"""All faults of tables at once, and a tables.yaml that decides them.

A fault can hide others: nobody sees the columns of a file in an unknown encoding. Every fault
therefore carries the setting that fixes it if there is one, and the tables are read again with it
until nothing new is met. A draft leaves columns out and reads texts in another way. It never
declares anything public: `values`, `range`, `bins` and `classes` are the operator's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from securefg.data.tabular.column_look import yaml_name
from securefg.data.tabular.faults import Fix, Unreadable, group_faults
from securefg.data.tabular.prepare import Prepared, prepared
from securefg.data.tabular.schema import Schema
from securefg.foundation.errors import DataError
from securefg.settings.tables import TableSettings

MOST_LOOKS = 12
_RULES = ("categorical", "date", "bins", "range", "values", "gaps", "from_edges")


@dataclass(frozen=True)
class Checked:
    """Faults of tables, as lines in the order they were met, and the settings that decide them.

    left  how many faults no setting decides
    made  the tables read by the draft; None if they cannot be read even so
    """

    lines: tuple[str, ...]
    left: int
    settings: TableSettings
    made: Prepared | None


def check_tables(folder: Path, settings: TableSettings, agreed: Schema | None = None) -> Checked:
    """Look at tables again with every fix until no fault is new."""
    draft, lines, left = settings, dict[str, None](), 0
    made: Prepared | None = None
    for _ in range(MOST_LOOKS):
        faults, broken = [], ""
        try:
            made = None
            made = prepared(folder, draft, agreed)
            faults = list(made.faults)
        except Unreadable as error:
            faults = list(error.faults)
        except DataError as error:
            broken = str(error)
        lines |= dict.fromkeys([*group_faults(faults), *([broken] if broken else [])])
        left = sum(fault.fix is None for fault in faults) + bool(broken)
        fixes = [fault.fix for fault in faults if fault.fix is not None]
        changed = apply_fixes(draft, [fix for fix in fixes if "shared" not in fix.settings])
        if changed == draft:  # rows differ in columns that stay, and in no gap
            changed = apply_fixes(draft, fixes)
        if changed == draft:
            break
        draft = changed
    return Checked(tuple(lines), left, draft, made)


def apply_fixes(settings: TableSettings, fixes: Sequence[Fix]) -> TableSettings:
    """Return the settings with all fixes. A fix that does not fit the others is left out."""
    for fix in dict.fromkeys(map(_frozen, fixes)):
        tree = _tree(settings)
        gone, added = json.loads(fix)
        left_out = {*gone, *added.get("ignore", ())}
        if added.get("ignore"):
            _forget(tree, left_out, _RULES)
        _forget(tree, set(gone), (*_RULES, "ignore", "where", "split_by", "transfers"))
        _merge(tree, added)
        try:
            settings = TableSettings.model_validate(tree)
        except ValidationError:
            continue
    return settings


def _frozen(fix: Fix) -> str:
    return json.dumps([fix.gone, fix.settings], ensure_ascii=False)


def _tree(settings: TableSettings) -> dict[str, Any]:
    """Return the settings that are not defaults, as YAML would hold them."""
    tree: dict[str, Any] = settings.model_dump(
        mode="json", include=settings.model_fields_set, exclude_defaults=True
    )
    return tree


def _forget(tree: dict[str, Any], names: set[str], keys: Sequence[str]) -> None:
    """Leave names out of lists and mappings. A split or transfers by an unknown column go whole."""
    for key in keys:
        value = tree.get(key)
        if key == "split_by" and value and value["column"] in names:
            del tree[key]
        elif key == "transfers" and value:
            for part in ("amount", "time"):
                _forget(value, names, (part,))
        elif isinstance(value, list):
            tree[key] = [name for name in value if name not in names]
        elif isinstance(value, dict):
            tree[key] = {name: rule for name, rule in value.items() if name not in names}
        if key in tree and not tree[key]:
            del tree[key]


def _merge(tree: dict[str, Any], added: Mapping[str, Any]) -> None:
    """Add entries to lists and mappings, and set all other values. Nothing means the default."""
    for key, value in added.items():
        if value is None:
            tree.pop(key, None)
        elif isinstance(value, list):
            before = tree.get(key, _defaults(key))
            tree[key] = list(dict.fromkeys([*before, *value]))
        elif isinstance(value, dict):
            tree[key] = {**tree.get(key, {}), **value}
        else:
            tree[key] = value


def _defaults(key: str) -> list[str]:
    return list(getattr(TableSettings(), key, ()))


def settings_text(settings: TableSettings) -> str:
    """Return a tables.yaml with these settings, one line each."""
    return "".join(f"{key}: {_flow(value)}\n" for key, value in _tree(settings).items())


def _flow(value: object) -> str:
    """Return a value as YAML on one line, with quotes wherever a text could be misread."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{yaml_name(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return yaml_name(value)
    return json.dumps(value)


def write_settings(settings: TableSettings, path: Path) -> None:
    """Write a tables.yaml. Raise `DataError` if the file exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(settings_text(settings))
    except FileExistsError:
        raise DataError(f"{path} exists; wanted a new file") from None
