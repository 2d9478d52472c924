"""The YAML loader takes what a config needs and refuses, by line, what it cannot need."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
import yaml

from securefg.foundation.errors import ConfigError
from securefg.foundation.yaml_text import MOST_BYTES, parse_yaml, read_yaml

LEVELS = "abcdefghi"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
    for before, name in itertools.pairwise(LEVELS)
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("seed: 1\nprivacy:\n  clip: 1\n  clip: 9", "f:4: found the key 'clip' twice"),
        ("{a: 1, 'a': 2}", "found the key 'a' twice"),
        ("<<: {a: 1}\n<<: {a: 2}", "found the key '<<' twice"),
        (BOMB, "values behind aliases"),
        ("&a [*a]", "an anchor that contains itself"),
        ("[" * 3000, "more than 40 levels"),
        ("a: " + "9" * 5000, "a number of 5000 characters"),
        ("a: !!python/object/apply:os.system [ls]", "the tag"),
        ("a: !mine 3", "the tag '!mine'"),
        ("a: !!binary aGk=", "the tag"),
        ("!!set {a, b}", "the tag"),
        ("on: 3", "found the key 'on'; expected text"),
        ("~: 3", "found the key '~'; expected text"),
        ("{[a, b]: 3}", "found a list or a mapping as a key"),
        ('a: "\\ud800"', "half a character"),
        ("a: 'x", "f:1: found broken YAML"),
        ("a\0b", "found broken YAML"),
        ("a: " + "b" * MOST_BYTES, "more than 256 KiB"),
        ("[" + "1," * 30_000 + "]", "more than 20000 values"),
    ],
)
def test_what_no_config_needs_is_refused_soon(text: str, wanted: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "f")
    assert wanted in str(refused.value)
    assert len(str(refused.value)) < 300
    assert time.process_time() - began < 8


def test_plain_values_are_those_of_yaml() -> None:
    text = (
        "a: [1, 2.5, true, null, x]\nb: {c: &c {d: 1}, e: *c}\n7: {<<: *c, g: 2}\nh: '2024-01-01'"
    )
    assert parse_yaml(text, "f") == yaml.safe_load(text)
    assert parse_yaml("a: 2024-99-99", "f") == {"a": "2024-99-99"}
    assert parse_yaml("", "f") is None


def test_read_yaml_of_shipped_configs_agrees_with_the_library() -> None:
    paths = sorted(Path("configs").glob("*.yaml"))
    assert len(paths) > 80
    assert [p.name for p in paths if read_yaml(p) != yaml.safe_load(p.read_text())] == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: found no readable file"):
        read_yaml(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\xe9")
    with pytest.raises(ConfigError, match=r"latin\.yaml: found no UTF-8 text"):
        read_yaml(tmp_path / "latin.yaml")
