"""The one YAML loader: plain values alone, every key once, and no more than a config can need.

A key that is given twice is refused, since the last one would win without a word. Anchors may be
used, but what they expand to is counted. Tags that make anything but text, numbers, booleans, lists
and mappings are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from securefg.foundation.errors import ConfigError
from securefg.foundation.quoting import shown

MOST_BYTES: Final = 256 * 1024
MOST_NODES: Final = 20_000
MOST_LEVELS: Final = 40
MOST_DIGITS: Final = 40
_TOO_LONG: Final = f"found more than {MOST_BYTES // 1024} KiB; expected less"
_BROKEN: Final = "found broken YAML ({}); expected lines such as `seed: 3`"
_KINDS = ("map", "seq", "str", "int", "float", "bool", "null")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KINDS}


def read_yaml(path: Path) -> Any:
    """Return a file's value. Every fault is a `ConfigError` that names the file and the line."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content[:MOST_BYTES].decode() if len(content) > MOST_BYTES else content.decode()
    except OSError as error:
        raise ConfigError(
            f"{path}: found no readable file ({error.strerror}); expected YAML"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: found no UTF-8 text at byte {error.start}; expected YAML"
        ) from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: {_TOO_LONG}")
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """Return the value that a text describes. Errors begin with `source`."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{source}: {_TOO_LONG}")
    try:
        return _load_value(text)
    except _Refused as error:
        raise ConfigError(f"{source}{error.line}: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = error.problem or error.context
        raise ConfigError(f"{source}{line}: {_BROKEN.format(problem)}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"{source}: {_BROKEN.format(reason)}") from error


class _Refused(Exception):
    """An error: the YAML is well formed, and not wanted here."""

    def __init__(self, node: yaml.Node | None, reason: str) -> None:
        super().__init__(reason)
        self.line = f":{node.start_mark.line + 1}" if node is not None else ""


class _Loader(yaml.SafeLoader):
    """A loader that composes no more nodes than `MOST_NODES`, none deeper than `MOST_LEVELS`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._level += 1
        self._nodes += 1
        if self._level > MOST_LEVELS:
            raise _Refused(parent, f"found more than {MOST_LEVELS} levels; expected fewer")
        if self._nodes > MOST_NODES:
            raise _Refused(parent, f"found more than {MOST_NODES} values; expected fewer")
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1


# A date is text to us: no setting is a date, and an impossible one would be a fault of its own.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _load_value(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count_expanded(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _count_expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many nodes this one stands for once its aliases are written out."""
    count = known.get(id(node))
    if count == 0:
        raise _Refused(node, "found an anchor that contains itself; expected none")
    if count is None:
        known[id(node)] = 0
        count = known[id(node)] = 1 + sum(
            _count_expanded(child, known) for child in _child_nodes(node)
        )
    if count > MOST_NODES:
        raise _Refused(node, f"found more than {MOST_NODES} values behind aliases; expected fewer")
    return count


def _child_nodes(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(node)
        return []
    if node.tag not in _TAGS:
        raise _Refused(node, f"found the tag {shown(node.tag)}; expected plain values")
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        return [part for pair in node.value for part in pair]
    return list(node.value)


def _check_scalar(node: yaml.ScalarNode) -> None:
    if node.tag not in _TAGS and not node.tag.endswith(":merge"):
        raise _Refused(node, f"found the tag {shown(node.tag)}; expected plain values")
    if any("\ud800" <= character <= "\udfff" for character in node.value):
        raise _Refused(node, f"found half a character in {shown(node.value)}; expected whole ones")
    if node.tag.endswith((":int", ":float")) and len(node.value) > MOST_DIGITS:
        found = f"a number of {len(node.value)} characters, {shown(node.value, 20)}"
        raise _Refused(node, f"found {found}; expected at most {MOST_DIGITS}")


def _names_something(key: yaml.ScalarNode) -> bool:
    """Return whether a key is text, or a whole number as it is usually written: `on` and `~` are no
    keys."""
    number = key.tag.endswith(":int") and key.value.isdecimal() and key.value == str(int(key.value))
    return number or key.tag.endswith((":str", ":merge"))


def _check_keys(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Refused(key, "found a list or a mapping as a key; expected text")
        if not _names_something(key):
            raise _Refused(key, f"found the key {shown(key.value)}; expected text: quote it")
        if key.value in seen:
            raise _Refused(key, f"found the key {shown(key.value)} twice; expected it once")
        seen.add(key.value)
