"""Text to numbers and dates, and one column's values to features and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from securefg.data.tabular.dates import as_date
from securefg.foundation.settings import Settings

Floats = NDArray[np.float32]
Texts = Sequence[str | None]
OTHER = "other"
FARTHEST = 10.0
"""Numbers are cut to so many scales: a single record would outweigh all others."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAYS_PER_YEAR = 365.25
_THOUSANDS = "['\u2019 \u00a0\u2009\u202f]"
"""Marks between thousands that are never decimal marks: apostrophes and blanks."""
_GROUPED = re.compile(rf"[+-]?[1-9]\d{{0,2}}({_THOUSANDS})\d{{3}}(\1\d{{3}})*(\.\d+)?", re.A)
COMMA_NUMBER = re.compile(
    rf"[+-]?([1-9]\d{{0,2}}((\.|{_THOUSANDS})\d{{3}})+|\d+)(,\d+)?(e[+-]?\d+)?", re.I | re.A
)
GAPS = {"n/a", "na", "n.a.", "n.a", "#n/a", "#na", "nan", "nat", "<na>", "null", "(null)", "none"}
GAPS |= {"nil", "-", "--", "---", "\u2013", "\u2014", ".", "..", "?", "??", "missing", "unknown"}
GAPS |= {"unbekannt", "k.a.", "k.a", "k. a.", "k/a", "tbd", "empty", "leer", "not available"}
GAPS |= {"-nan", "+nan", "1.#qnan", "-1.#ind", "inf", "-inf", "+inf", "infinity", "-infinity"}
GAPS |= {"#div/0!", "#value!", "#ref!", "#num!", "#null!", "#name?", "#wert!", "(blank)", "(leer)"}
GAPS |= {"not applicable", "not specified", "keine angabe", "keine angaben", "n.v."}
GAPS |= {
    "nicht bekannt",
    "nicht verf\u00fcgbar",
    "entf\u00e4llt",
    "fehlt",
    "inconnu",
    "desconocido",
}
"""Words for a missing value, in lower case."""


class Column(Settings):
    """One column of the node table.

    number    (value - mean) / scale, cut to -10..10; missing is 0, and a further feature says so
              if enough values were missing when the schema was made
    category  one feature per value, one for all others, and one for missing where there were any
    range     a number cut to low..high, as -1..1
    bins      one feature per interval between the edges
    date      its age at the reference day in units of `years`, cut to -1..1, and its weekday
    from_edges  whether its values were computed from edges, so that one edge moves both ends' rows
    declared  whether the operator gave all of it, so that nothing was learnt from tables
    gap_declared  whether the operator said that values are missing
    """

    name: str
    kind: Literal["number", "category", "range", "bins", "date"]
    missing: bool = False
    declared: bool = False
    gap_declared: bool = False
    from_edges: bool = False
    mean: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()
    other: bool = False
    low: float = -1.0
    high: float = 1.0
    edges: tuple[float, ...] = ()
    reference: date | None = None
    format: str | None = None
    years: float = 20.0
    parts: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Return the meaning of each of its features, in words."""
        own = _FEATURES[self.kind](self)
        return (*own, f"{self.name} is missing") if self.missing else own


def as_numbers(values: Sequence[str]) -> NDArray[np.float64] | None:
    """All of them as finite numbers, or None; a column of no values is no number."""
    try:
        numbers = np.array([as_number(value) for value in values], np.float64)
    except ValueError:
        return None
    return numbers if len(numbers) and bool(np.isfinite(numbers).all()) else None


def as_number(value: str) -> float:
    """Return the number that a text is, also with blanks or apostrophes between thousands.

    1_000 is Python's and no number in a table.
    """
    if "_" in value:
        raise ValueError(value)
    if (grouped := _GROUPED.fullmatch(value)) is not None:
        value = value.replace(grouped[1], "")
    return float(value)


def with_points(values: Texts) -> list[str | None]:
    """Return a column of numbers with decimal commas with points; any other as it is."""
    there = [value for value in values if value is not None]
    if not there or not all(COMMA_NUMBER.fullmatch(value) for value in there):
        return list(values)
    return [None if v is None else v.replace(".", "").replace(",", ".") for v in values]


# ------------------------------------------------------------------------------- text to features


def encode_column(column: Column, cell_texts: Texts) -> tuple[Floats, list[int]]:
    """(rows, features), and the rows whose value the column cannot hold."""
    width = len(_FEATURES[column.kind](column))
    rows, bad = np.zeros((len(cell_texts), width)), []
    known: dict[str, NDArray[np.float64] | None] = {}
    for row, value in enumerate(cell_texts):
        if value is None:
            continue
        if value not in known:
            known[value] = _encode_value(column, value, width)
        encoded = known[value]
        if encoded is None:
            bad.append(row)
        else:
            rows[row] = encoded
    if column.missing:
        rows = np.concatenate([rows, np.array([[v is None] for v in cell_texts]).reshape(-1, 1)], 1)
    return rows.astype(np.float32), bad


def _encode_value(column: Column, value: str, width: int) -> NDArray[np.float64] | None:
    """The features of one value, or None where the column cannot hold it."""
    try:
        encoded = _ENCODED[column.kind](column, value, np.zeros(width))
    except ValueError:
        return None
    fits = bool((np.abs(encoded) <= np.finfo(np.float32).max).all())
    return encoded if fits else None


def _encode_number(column: Column, value: str, row: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = (_finite_number(value) - column.mean) / column.scale
    row[0] = min(max(scaled, -FARTHEST), FARTHEST)
    return row


def _encode_category(column: Column, value: str, row: NDArray[np.float64]) -> NDArray[np.float64]:
    if value not in column.values and not column.other:
        raise ValueError(value)
    row[column.values.index(value) if value in column.values else len(column.values)] = 1
    return row


def _encode_range(column: Column, value: str, row: NDArray[np.float64]) -> NDArray[np.float64]:
    number = _finite_number(value)
    middle, half = (column.high + column.low) / 2, (column.high - column.low) / 2
    row[0] = (min(max(number, column.low), column.high) - middle) / half
    return row


def _encode_bins(column: Column, value: str, row: NDArray[np.float64]) -> NDArray[np.float64]:
    row[int(np.searchsorted(column.edges, _finite_number(value), side="right"))] = 1
    return row


def _encode_date(column: Column, value: str, row: NDArray[np.float64]) -> NDArray[np.float64]:
    day = as_date(value, column.format)
    assert column.reference is not None
    if "age" in column.parts:
        age = (column.reference - day).days / DAYS_PER_YEAR / column.years
        row[0] = min(max(age, -1.0), 1.0)
    if "weekday" in column.parts:
        row[len(row) - len(WEEKDAYS) + day.weekday()] = 1
    return row


def _finite_number(value: str) -> float:
    number = as_number(value)
    if not np.isfinite(number):
        raise ValueError(value)
    return number


_ENCODED = {
    "number": _encode_number,
    "category": _encode_category,
    "range": _encode_range,
    "bins": _encode_bins,
    "date": _encode_date,
}


# ------------------------------------------------------------------------------- features to text


def decode_column(column: Column, encoded: Floats) -> list[str | None]:
    """The way back: numbers up to rounding and their bounds, `other` for every rare category."""
    own = encoded[:, :-1] if column.missing else encoded
    absent = encoded[:, -1] > 0.5 if column.missing else np.zeros(len(encoded), bool)
    texts = [_decode_row(column, row) for row in own]
    return [None if gone else text for text, gone in zip(texts, absent, strict=True)]


decode = decode_column  # the earlier name, kept for one version


def _decode_row(column: Column, row: Floats) -> str:
    if column.kind == "number":
        return f"{float(row[0]) * column.scale + column.mean:.6g}"
    if column.kind == "range":
        middle, half = (column.high + column.low) / 2, (column.high - column.low) / 2
        return f"{float(row[0]) * half + middle:.6g}"
    if column.kind == "date":
        assert column.reference is not None
        if "age" not in column.parts:
            return WEEKDAYS[int(row.argmax())]
        days = timedelta(days=round(float(row[0]) * column.years * DAYS_PER_YEAR))
        return (column.reference - days).isoformat()
    names = (*column.values, OTHER) if column.kind == "category" else _interval_names(column.edges)
    return names[int(row.argmax())] if len(row) else ""


def _interval_names(edges: tuple[float, ...]) -> tuple[str, ...]:
    between = [f"from {a:g} to below {b:g}" for a, b in pairwise(edges)]
    return (f"below {edges[0]:g}", *between, f"from {edges[-1]:g}")


def _date_features(column: Column) -> tuple[str, ...]:
    age = [f"years from {column.name} to {column.reference}, over {column.years:g}"]
    days = [f"{column.name} on a {day}" for day in WEEKDAYS]
    return (*(age * ("age" in column.parts)), *(days * ("weekday" in column.parts)))


_FEATURES = {
    "number": lambda c: (f"({c.name} - {c.mean:g}) / {c.scale:g}",),
    "category": lambda c: (
        *(f"{c.name} = {value}" for value in c.values),
        *([f"{c.name} = {OTHER}"] if c.other else []),
    ),
    "range": lambda c: (f"{c.name} from {c.low:g} to {c.high:g}, as -1 to 1",),
    "bins": lambda c: tuple(f"{c.name} {interval}" for interval in _interval_names(c.edges)),
    "date": _date_features,
}
