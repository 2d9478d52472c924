"""One column's values as the rules on dangerous columns look at them."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cached_property

from securefg.data.tabular.encoding import Texts, as_numbers
from securefg.data.tabular.faults import Fix
from securefg.data.tabular.schema import Holders, count_filled, count_records
from securefg.settings.tables import TableSettings

MOST = 0.9
"""From this share of its values on, a column counts as what they look like."""
NEAR_UNIQUE = 0.5
SOME = 0.02
FEW = 20
"""Fewer values than these are near-unique by chance."""

Found = tuple[str, str] | tuple[str, str, Fix] | None
"""What a rule met, the advice, and the change of tables.yaml unless the column is left out."""

_PLAIN = re.compile(r"[^\W\d]\w*")
_YAML_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_WORDS = re.compile(r"[^\W\d_]+")


def yaml_name(name: str) -> str:
    """Return a name as YAML has it, with quotes if it needs them."""
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in _YAML_WORDS
    return name if is_plain else json.dumps(name, ensure_ascii=False)


class Look:
    """A column's values as the rules look at them."""

    def __init__(self, name: str, values: Texts, settings: TableSettings, holders: Holders) -> None:
        self.name, self.settings = name, settings
        self._found, self._holders = values, holders
        self.values = [value for value in values if value is not None]

    def without(self, words: set[str]) -> Look:
        """Return the look at the column in which these words are gaps."""
        values = [None if value in words else value for value in self._found]
        return Look(self.name, values, self.settings, self._holders)

    @cached_property
    def key(self) -> str:
        """The column's name as YAML has it."""
        return yaml_name(self.name)

    @property
    def ignore(self) -> str:
        return f"`ignore: [{self.key}]`"

    @property
    def category(self) -> str:
        return f"`categorical: [{self.key}]`"

    @property
    def range(self) -> str:
        return f"`range: {{{self.key}: [low, high]}}`"

    @cached_property
    def words(self) -> list[str]:
        """The words of the column's name, in lower case."""
        split = re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z])", " ", self.name)
        return [word.lower() for word in _WORDS.findall(split)]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self.values)

    @cached_property
    def records(self) -> Counter[str]:
        return count_records(self._found, self._holders)

    @cached_property
    def parts(self) -> list[list[str]]:
        """The values of each organisation."""
        if not any(self._holders):
            return [self.values]
        parts: dict[str, list[str]] = defaultdict(list)
        for value, names in zip(self._found, self._holders, strict=True):
            for name in set(names) if value is not None else ():
                parts[name].append(str(value))
        return list(parts.values())

    @cached_property
    def filled(self) -> Counter[str]:
        """How many values each organisation has."""
        return count_filled(self._found, self._holders)

    @cached_property
    def is_number(self) -> bool:
        return as_numbers(list(self.counts)) is not None

    @property
    def is_declared(self) -> bool:
        """Whether the operator says that these are categories."""
        return self.name in self.settings.categorical

    @property
    def is_category(self) -> bool:
        return self.is_declared or not self.is_number

    @property
    def unique(self) -> float:
        """The share of different values."""
        return len(self.counts) / max(1, len(self.values))

    def share(self, matches: Callable[[str], object]) -> float:
        """The share of records whose value matches."""
        hits = sum(count for value, count in self.counts.items() if matches(value))
        return hits / max(1, len(self.values))
