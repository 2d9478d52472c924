"""How columns become numbers: a schema that is stored, explained and can be read backwards.

All sites share the schema, so a value of a table enters it only if one organisation alone has
enough records of it. A count over all organisations would not do: a bank with nine records of a
value would learn from the value's entry that another bank has the tenth. Nothing else in it depends
on a single record: a category always has the feature `other`, and a mean is taken of numbers
between the tenth smallest and the tenth largest one.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from securefg.data.tabular.encoding import Column, Texts, as_numbers
from securefg.data.tabular.transfers import link_features
from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings, explain_fault
from securefg.settings.tables import LEAST_RECORDS, TableSettings, TransferRule

Holders = Sequence[Iterable[str]]
FILE = "schema.json"
LARGEST = 1e30
"""Numbers beyond it overflow in sums of squares."""
NUMBERS_PER_RECORD = 3
"""A mean needs so many times `min_records` numbers, since the tails on both sides are cut."""
RARE_ABOVE = 0.8
"""From this share of one of two classes on, the other is the rare one."""


class Schema(Settings):
    """All columns, the classes by number, and the clients by number.

    declared_classes  whether the operator named the classes, rather than the tables
    """

    format: Literal[1, 2] = 2
    columns: tuple[Column, ...]
    classes: tuple[str, ...]
    clients: tuple[str, ...] = ()
    declared_classes: bool = False
    min_records: int = LEAST_RECORDS
    transfers: TransferRule | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Return the meaning of each feature, in words. Sums over links come last."""
        own = (name for column in self.columns for name in column.features)
        return (*own, *self.summed)

    @property
    def summed(self) -> tuple[str, ...]:
        """What the features that are summed over links mean."""
        rule = self.transfers
        return link_features(rule) if rule is not None and rule.on_nodes else ()

    @property
    def from_edges(self) -> tuple[str, ...]:
        """Columns in which an edge shows at both of its ends, past every bound on nodes."""
        return tuple(column.name for column in self.columns if column.from_edges)

    @property
    def learnt(self) -> tuple[str, ...]:
        """What the schema tells of the tables it was made from; no epsilon covers it."""
        own = [column for column in self.columns if not column.declared]
        numbers = [column.name for column in own if column.kind == "number"]
        categories = [column.name for column in own if column.kind == "category"]
        gaps = [c.name for c in self.columns if c.missing and not c.gap_declared]
        facts = (
            ("mean and scale of", numbers, "range"),
            ("frequent values of", categories, "values"),
            ("that values are missing in", gaps, "gaps"),
            ("names of the classes", [] if self.declared_classes else [""], "classes"),
        )
        return tuple(
            f"{what} {', '.join(names)}".strip() + (f" (`{key}` declares them)" if key else "")
            for what, names, key in facts
            if names
        )


def count_records(cell_texts: Texts, holders: Holders = ()) -> Counter[str]:
    """Return how many records have each value, at the organisation that has most of them."""
    if not any(holders):
        return Counter(value for value in cell_texts if value is not None)
    pairs = Counter(
        (value, holder)
        for value, names in zip(cell_texts, holders, strict=True)
        if value is not None
        for holder in set(names)
    )
    most: Counter[str] = Counter()
    for (value, _), count in pairs.items():
        most[value] = max(most[value], count)
    return most


def count_filled(cell_texts: Texts, holders: Holders = ()) -> Counter[str]:
    """Return how many values each organisation has."""
    if not any(holders):
        return Counter({"": sum(value is not None for value in cell_texts)})
    pairs = zip(cell_texts, holders, strict=True)
    return Counter(name for value, names in pairs if value is not None for name in set(names))


def describe_column(
    name: str,
    cell_texts: Texts,
    settings: TableSettings,
    holders: Holders = (),
    least: int | None = None,
) -> Column:
    """Return the column's part of the schema, from rules first and from its values otherwise."""
    least = settings.min_records if least is None else least
    is_known = name in settings.gaps
    gaps = count_records(["gap" if value is None else None for value in cell_texts], holders)
    missing = is_known or gaps["gap"] >= least
    declared = _declared_column(name, missing, settings)
    column = declared or _learn_column(name, missing, cell_texts, settings, holders, least)
    return column.model_copy(update={"gap_declared": is_known})


def _learn_column(
    name: str,
    missing: bool,
    cell_texts: Texts,
    settings: TableSettings,
    holders: Holders,
    least: int,
) -> Column:
    values = [value for value in cell_texts if value is not None]
    numbers = None if name in settings.categorical else as_numbers(values)
    if numbers is not None:
        parts = _numbers_by_holder(numbers, cell_texts, holders)
        enough = [part for part in parts if len(part) >= NUMBERS_PER_RECORD * least]
        mean, scale = _learn_scale(enough, least) if enough else (0.0, 1.0)
        return Column(name=name, kind="number", missing=missing, mean=mean, scale=scale)
    counts = count_records(cell_texts, holders)
    frequent = sorted((-count, value) for value, count in counts.items() if count >= least)
    kept = tuple(sorted(value for _, value in frequent[: settings.max_categories]))
    return Column(name=name, kind="category", missing=missing, values=kept, other=True)


def _declared_column(name: str, missing: bool, settings: TableSettings) -> Column | None:
    """The column by the operator's own rule, or None where there is none."""
    common = {"name": name, "missing": missing, "declared": True}
    if name in settings.date:
        rule = settings.date[name]
        given = rule.model_dump(exclude={"features"})
        return Column(kind="date", parts=rule.features, **common, **given)
    if name in settings.bins:
        return Column(kind="bins", edges=settings.bins[name], **common)
    if name in settings.range:
        low, high = settings.range[name]
        return Column(kind="range", low=low, high=high, **common)
    if name in settings.values:
        return Column(kind="category", values=settings.values[name], other=True, **common)
    return None


def _numbers_by_holder(
    numbers: NDArray[np.float64], cell_texts: Texts, holders: Holders
) -> list[NDArray[np.float64]]:
    """Return the numbers of each organisation, in the order of their names."""
    if not any(holders):
        return [numbers]
    pairs = zip(cell_texts, holders, strict=True)
    held = [set(names) for value, names in pairs if value is not None]
    everybody = sorted({name for names in held for name in names})
    return [numbers[[name in names for names in held]] for name in everybody]


def _learn_scale(parts: Sequence[NDArray[np.float64]], least: int) -> tuple[float, float]:
    """Return mean and scale over organisations that each have enough numbers.

    Another organisation knows its own numbers, so the few of a small one would show in a common
    mean.
    """
    tamed = np.concatenate([_without_tails(part, least) for part in parts])
    return _round_scale(float(tamed.mean()), float(tamed.std()))


def _without_tails(numbers: NDArray[np.float64], least: int) -> NDArray[np.float64]:
    """Cut the smallest and largest values to the `least`-th of them.

    One very rich person would show in the mean and the scale of a column otherwise.
    """
    ordered = np.sort(numbers)
    low, high = ordered[least - 1], ordered[-least]
    return np.clip(numbers, max(low, -LARGEST), min(high, LARGEST))


def _round_scale(mean: float, scale: float) -> tuple[float, float]:
    """Round the scale to 1, 2 or 5 times a power of ten, and the mean to half of it.

    The value to which a tail is cut is that of a single record. Where the others hardly differ, the
    scale is this value times a known factor, and two digits would tell it.
    """
    if scale < 1e-12 * max(1.0, abs(mean)):
        return float(f"{mean:.6g}"), 1.0
    power = 10.0 ** math.floor(math.log10(scale))
    rounded = min((f * power for f in (1, 2, 5, 10)), key=lambda r: abs(math.log(r / scale)))
    step = rounded / 2
    return float(f"{round(mean / step) * step:.12g}"), float(f"{rounded:.1g}")


def schema_text(schema: Schema) -> str:
    """Return the schema as it is stored: its format, and all that is not left at its default."""
    stated = schema.model_dump(mode="json", exclude_defaults=True)
    return json.dumps({"format": schema.format, **stated}, indent=2, ensure_ascii=False)


def read_schema(path: Path) -> Schema:
    """Read a stored schema. Raise `DataError` for a faulty file."""
    try:
        return Schema.model_validate_json(read_bounded(path))
    except (OSError, ValidationError) as error:
        why = explain_fault(error)
        raise DataError(f"{path}: {why}; wanted a schema of `securefg data prepare`") from None


def class_names(labels: Texts, settings: TableSettings) -> tuple[str, ...]:
    """The declared classes, else those of the tables: numbers by size, words by letter.

    Of two classes the second is the one that is looked for, so a rare one comes last.
    """
    if settings.classes:
        return settings.classes
    counts = Counter(label for label in labels if label is not None)
    whole = all(name.isdecimal() for name in counts)
    names = sorted(counts, key=lambda name: (int(name) if whole else 0, name))
    if len(names) == 2 and counts[names[1]] > RARE_ABOVE * counts.total():
        names.reverse()
    return tuple(names)


def client_labels(
    names: tuple[str, ...], column: bool, counts: Counter[str], least: int
) -> tuple[str, ...]:
    """Folders' names as they are; a column's value only if it has enough records."""
    return tuple(
        name if not column or counts[name] >= least else f"client {number}"
        for number, name in enumerate(names)
    )
