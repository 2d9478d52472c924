"""A class of a notebook's cell is named by its source, though no file holds it."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
from torch import nn

from securefg.foundation.errors import InputError
from securefg.models.given import reference

CELL = """
import torch


class Net(torch.nn.Module):
    width = 4

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.rows = torch.nn.Linear(num_features, num_classes)
"""


def of_cell(source: str, number: int) -> dict[str, Any]:
    """The names of a cell, as a kernel would run it."""
    name = f"<cell-{number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), names)
    return names


def test_classes_of_cells_are_told_apart_by_their_source() -> None:
    one, again = of_cell(CELL, 1)["Net"], of_cell(f"\n# another cell\n{CELL}", 2)["Net"]
    wider = of_cell(CELL.replace("width = 4", "width = 5"), 3)["Net"]
    assert reference(one) == reference(again) != reference(wider)
    assert reference(one(3, 2)) != reference(wider(3, 2))


def test_a_class_without_readable_source_is_refused() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, names)
    with pytest.raises(InputError, match="the source of 'Net' cannot be read"):
        reference(names["Net"])
    bare = type("Bare", (nn.Module,), {"__module__": "__main__"})
    with pytest.raises(InputError, match="the source of 'Bare' cannot be read"):
        reference(bare)
