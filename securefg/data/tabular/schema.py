"""How columns become numbers: a schema that is stored, explained and can be read backwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings, explain_fault

Floats = NDArray[np.float32]
OTHER = "other"
Texts = Sequence[str | None]


class Column(Settings):
    """One column of the node table.

    number    (value - mean) / scale; missing is 0, and where values were missing when the schema
              was made a further feature says so
    category  one feature per value, one for all others, and one for missing where there were any
    """

    name: str
    kind: Literal["number", "category"]
    missing: bool = False
    mean: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()
    other: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """What each of its features means, in words."""
        if self.kind == "number":
            own = [f"({self.name} - {self.mean:g}) / {self.scale:g}"]
        else:
            own = [f"{self.name} = {value}" for value in self.values]
            own += [f"{self.name} = {OTHER}"] if self.other else []
        return (*own, f"{self.name} is missing") if self.missing else tuple(own)


class Schema(Settings):
    """All columns, the classes by number, and the clients by number."""

    format: Literal[1] = 1
    columns: tuple[Column, ...]
    classes: tuple[str, ...]
    clients: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """What each feature means, in words."""
        return tuple(name for column in self.columns for name in column.features)


def describe(name: str, found: Texts, categorical: bool, max_categories: int) -> Column:
    """The column's part of the schema, from the values that are there."""
    values = [value for value in found if value is not None]
    numbers = None if categorical else as_numbers(values)
    missing = len(values) < len(found)
    if numbers is not None:
        # The scale is rounded: it is written down and shown, and no figure hangs on its digits.
        mean, scale = (float(f"{x:.6g}") for x in (numbers.mean(), numbers.std()))
        return Column(name=name, kind="number", missing=missing, mean=mean, scale=scale or 1.0)
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    kept = tuple(sorted(value for value, _ in counts[:max_categories]))
    other = len(counts) > len(kept)
    return Column(name=name, kind="category", missing=missing, values=kept, other=other)


def as_numbers(values: Sequence[str]) -> NDArray[np.float64] | None:
    """All of them as finite numbers, or None; a column of no values is no number."""
    try:
        numbers = np.array([float(value) for value in values], np.float64)
    except ValueError:
        return None
    return numbers if len(numbers) and bool(np.isfinite(numbers).all()) else None


def encode(column: Column, found: Texts) -> tuple[Floats, list[int]]:
    """(rows, features), and the rows whose value the column cannot hold."""
    absent = np.array([value is None for value in found], bool)
    parts, bad = [], []
    if column.kind == "number":
        numbers = np.zeros(len(found))
        for row, value in enumerate(found):
            try:
                numbers[row] = 0 if value is None else (float(value) - column.mean) / column.scale
            except ValueError:
                bad.append(row)
        bad += np.flatnonzero(~(np.abs(numbers) <= np.finfo(np.float32).max)).tolist()
        parts.append(numbers[:, None])
    else:
        place = {value: index for index, value in enumerate(column.values)}
        width = len(column.values) + column.other
        one_hot = np.zeros((len(found), width))
        for row, value in enumerate(found):
            if value is None:
                continue
            at = place.get(value, len(place) if column.other else None)
            if at is None:
                bad.append(row)
            else:
                one_hot[row, at] = 1
        parts.append(one_hot)
    if column.missing:
        parts.append(absent[:, None])
    else:
        bad += np.flatnonzero(absent).tolist()
    return np.concatenate(parts, 1).astype(np.float32), sorted(set(bad))


def decode(column: Column, encoded: Floats) -> list[str | None]:
    """The way back: numbers up to rounding, `other` for every rare category."""
    own = encoded[:, :-1] if column.missing else encoded
    absent = encoded[:, -1] > 0.5 if column.missing else np.zeros(len(encoded), bool)
    if column.kind == "number":
        texts = [f"{value * column.scale + column.mean:.6g}" for value in own[:, 0].tolist()]
    else:
        names = [*column.values, *([OTHER] if column.other else [])]
        texts = [names[at] for at in own.argmax(1)] if own.shape[1] else [""] * len(own)
    return [None if gone else text for text, gone in zip(texts, absent, strict=True)]


def read_schema(path: Path) -> Schema:
    """Read a stored schema; raise `DataError` for a faulty file."""
    try:
        return Schema.model_validate_json(read_bounded(path))
    except (OSError, ValidationError) as error:
        why = explain_fault(error)
        raise DataError(f"{path}: {why}; wanted a schema of `securefg data prepare`") from None
