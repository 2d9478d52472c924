"""What `tables.yaml` may say about tables of nodes and edges as people have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import name_kind
from securefg.foundation.yaml_text import read_yaml

FILE = "tables.yaml"


class TableSettings(Settings):
    """Names of files and columns, and how their text is read.

    nodes, edges      file names without their ending: .csv, .tsv, .txt or .parquet
    id                column of the node table; not set: its first one
    label             column; a node whose label is missing is in no part of the split
    split, client     columns, used where they are there: train|val|test, and who holds the node
    source, target    columns of the edge table; not set: its first two
    where             keep only edges whose column has one of these values
    unknown_ends      an edge to a node of no table: a fault, or dropped and counted
    shared            a node in several organisations' tables: its rows must agree, or numbers are
                      averaged and the first of differing categories counts
    categorical       numeric columns that are categories; ignore: columns that are left out
    max_categories    rarer values of a column are one category, `other`
    separator         one character; not set: the one of , ; tab | that the header has most of
    encoding          not set: UTF-8, or UTF-16 where the file says so
    """

    nodes: str = "nodes"
    edges: str = "edges"
    id: str | None = None
    label: str = "label"
    split: str = "split"
    client: str = "client"
    source: str | None = None
    target: str | None = None
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    unknown_ends: Literal["refuse", "drop"] = "refuse"
    shared: Literal["same", "mean"] = "same"
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_categories: Annotated[int, Field(ge=1, le=10_000)] = 50
    missing: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: str | None = None


def table_settings(folder: Path, file: Path | None = None) -> TableSettings:
    """Of a given file, else of the folder's own `tables.yaml`, else the defaults."""
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
