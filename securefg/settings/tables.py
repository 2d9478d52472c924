"""The settings of `tables.yaml`, for tables of nodes and edges as people have them."""

from __future__ import annotations

from collections import Counter
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from annotated_types import MinLen
from pydantic import Field, ValidationError, field_validator, model_validator

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import name_kind
from securefg.foundation.yaml_text import read_yaml

FILE = "tables.yaml"
LEAST_RECORDS = 10
"""A value of fewer records never enters a schema; tables.yaml may ask for more, not for less."""


class DateRule(Settings):
    """How a date becomes features, by public rules alone: its age at a public day, its weekday.

    reference  the public day from which ages are counted, as text: "2025-01-01"
    format     as `datetime.strptime` has it, or unix or unix_ms; not set: 2025-01-31
    years      ages are cut to so many years in either direction, and divided by it
    features   age, weekday, or both
    """

    reference: date
    format: str | None = None
    years: Annotated[float, Field(gt=0, le=1000)] = 20.0
    features: Annotated[tuple[Literal["age", "weekday"], ...], Field(min_length=1)] = ("age",)


Windows = Annotated[tuple[float, ...] | tuple[date, ...], MinLen(2)]
"""Ascending numbers, or ascending days."""


class TransferRule(Settings):
    """How transfers become features of their ends: all bounds are public.

    amount  by edge column, the bounds of log(1 + total) between two accounts in one direction
    time    by edge column, the ascending edges of windows in which there was a transfer or not:
            numbers, or days such as "2025-01-01"
    format  of days in the tables, as in `date`
    most    transfers between two accounts that count as many
    become  features of nodes, summed over partners, features of edges, or both
    """

    amount: dict[str, tuple[float, float]] = Field(default_factory=dict)
    time: dict[str, Windows] = Field(default_factory=dict)
    format: str | None = None
    most: Annotated[int, Field(ge=1)] = 100
    become: Literal["nodes", "edges", "both"] = "nodes"

    @property
    def on_nodes(self) -> bool:
        """Whether transfers are summed into features of their ends."""
        return self.become != "edges"

    @property
    def on_edges(self) -> bool:
        """Whether every edge carries its transfers."""
        return self.become != "nodes"

    @property
    def columns(self) -> tuple[str, ...]:
        """The edge columns that are read, amounts first."""
        return (*self.amount, *self.time)

    @property
    def windows(self) -> dict[str, tuple[float, ...]]:
        """The edges of all windows as numbers; of days, their count since year 1."""
        return {
            name: tuple(e if isinstance(e, float) else float(e.toordinal()) for e in edges)
            for name, edges in self.time.items()
        }

    @model_validator(mode="after")
    def _edges_ascend(self) -> Self:
        for name, edges in (*self.amount.items(), *self.time.items()):
            if any(a >= b for a, b in pairwise(edges)):  # type: ignore[operator]
                raise ValueError(f"{name}: found edges {edges}; expected ascending numbers")
        return self


class TimeSplit(Settings):
    """A split by time: nodes before `val` train, nodes from `test` on are tested.

    column  of days, which may be ignored as a feature
    format  as in `date`
    """

    column: str
    val: date
    test: date
    format: str | None = None

    @model_validator(mode="after")
    def _days_ascend(self) -> Self:
        if self.val > self.test:
            raise ValueError(f"found val {self.val} after test {self.test}; expected it before")
        return self


class TableSettings(Settings):
    """Names of files and columns, and how their text is read.

    nodes, edges      file names without their ending: .csv, .tsv, .txt or .parquet
    id                column of the node table; not set: its first one
    label             column; a node whose label is missing is in no part of the split
    split, client     columns, used where they are there: train|val|test, and who holds the node
    split_by          a split by time, in place of a column
    source, target    columns of the edge table; not set: its first two
    where             keep only edges whose column has one of these values
    unknown_ends      an edge to a node of no table: a fault, or dropped and counted
    shared            a node in several organisations' tables: its rows must agree, or numbers are
                      averaged and the first of differing categories counts
    categorical       numeric columns that are categories; ignore: columns that are left out
    max_categories    rarer values of a column are one category, `other`
    min_records       a value needs so many records at one organisation to enter the schema
    date, bins        columns of dates, and of numbers that become classes between public edges
    range, values     public bounds of a number, public values of a category: nothing is learnt
    gaps              columns in which a missing value is a feature, as is publicly known; in
                      others it is one if enough records have no value
    classes           public names of the labels
    transfers         how edges become features of their ends, within public bounds
    from_edges        columns that were computed from edges: no epsilon covers an edge in them
    decimal           what separates decimals: 3.5 or 3,5
    separator         one character; not set: the one of , ; tab | that most lines have as often
                      as the header has
    encoding          not set: UTF-8, or UTF-16 or UTF-32 where the file says so
    """

    nodes: str = "nodes"
    edges: str = "edges"
    id: str | None = None
    label: str = "label"
    split: str = "split"
    client: str = "client"
    split_by: TimeSplit | None = None
    source: str | None = None
    target: str | None = None
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    unknown_ends: Literal["refuse", "drop"] = "refuse"
    shared: Literal["same", "mean"] = "same"
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_categories: Annotated[int, Field(ge=1, le=10_000)] = 50
    min_records: Annotated[int, Field(ge=LEAST_RECORDS)] = LEAST_RECORDS
    date: dict[str, DateRule] = Field(default_factory=dict)
    bins: dict[str, Annotated[tuple[float, ...], Field(min_length=1)]] = Field(default_factory=dict)
    range: dict[str, tuple[float, float]] = Field(default_factory=dict)
    values: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    transfers: TransferRule | None = None
    from_edges: tuple[str, ...] = ()
    decimal: Literal[".", ","] = "."
    missing: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: str | None = None

    @property
    def ruled(self) -> tuple[str, ...]:
        """Return columns that a rule of this file speaks of, as often as it does."""
        return (*self.categorical, *self.date, *self.bins, *self.range, *self.values)

    @field_validator("missing")
    @classmethod
    def _count_empty_as_missing(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Keep an empty cell a missing value, whatever other words there are."""
        return value if "" in value else ("", *value)

    @model_validator(mode="after")
    def _rules_make_sense(self) -> Self:
        for name, count in Counter((*self.ruled, *self.ignore)).items():
            if count > 1:
                raise ValueError(
                    f"{name}: found under {count} of categorical, date, bins, range, values, "
                    "ignore; expected one"
                )
        for name, edges in (*self.bins.items(), *self.range.items()):
            if any(a >= b for a, b in pairwise(edges)):
                raise ValueError(f"{name}: found edges {edges}; expected ascending numbers")
        for name, given in (*self.values.items(), ("classes", self.classes)):
            if len(set(given)) < len(given):
                raise ValueError(f"{name}: found a value twice; expected every value once")
        return self


def table_settings(folder: Path, file: Path | None = None) -> TableSettings:
    """Return the settings of a given file, else of the folder's own `tables.yaml`, else the
    defaults."""
    path = file or folder / FILE
    if file is None and not path.is_file():
        return TableSettings()
    tree = read_yaml(path) or {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: found {name_kind(tree)}; expected keys such as nodes, label")
    try:
        return TableSettings.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(explain_errors(error, TableSettings, prefix=f"{path}: ")) from error
