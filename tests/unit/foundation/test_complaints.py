"""Faults of settings are read off the settings' own types, whatever pydantic calls them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from securefg.foundation.complaints import describe_type, explain_errors
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import list_names, spell_value


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Settings):
    depth: int = Field(1, ge=0, le=9)
    names: tuple[Annotated[str, Field(max_length=3)], ...] = ()


class Outer(Settings):
    inner: Inner = Inner()
    many: dict[str, Inner] = Field(default_factory=dict)
    either: int | Literal["auto"] = "auto"
    colour: Colour = Colour.RED
    odd: int = 1
    shares: tuple[float, ...] | None = None

    @field_validator("odd")
    @classmethod
    def _is_odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("even numbers do not work here")
        return value


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (
            {"inner": {"depth": 10}},
            "inner.depth: found 10; expected a whole number of at least 0 and of at most 9",
        ),
        (
            {"inner": {"names": ["long!"]}},
            "inner.names.0: found 'long!'; expected text of at most 3 characters",
        ),
        (
            {"many": {"a.b": {"depht": 1}}},
            "many.a.b.depht: found an unknown key; expected depth or names; did you mean depth?",
        ),
        ({"many": []}, "many: found []; expected a mapping"),
        ({"depth": 1}, "depth: found an unknown key; expected inner, many, either, colour, odd or "
         "shares; did you mean inner.depth?"),
        ({"either": "autos"}, "either: found 'autos'; expected a whole number or auto"),
        ({"colour": "reed"}, "colour: found 'reed'; expected red or blue; did you mean red?"),
        ({"odd": 2}, "odd: found 2; even numbers do not work here"),
        ({"shares": 3}, "shares: found 3; expected a list (every entry: a number), or nothing"),
        ({"inner": None}, "inner: found nothing; expected a mapping with depth, names"),
    ],
)  # fmt: skip
def test_explain_errors_names_key_found_and_expected(tree: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate(tree)
    assert explain_errors(error.value, Outer).splitlines()[0] == line


def test_explain_errors_of_many_faults_gives_two_lines_misspelt_first() -> None:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate({"odd": "x", "inner": 3, "many": 3, "odds": 1})
    lines = explain_errors(error.value, Outer, prefix="f.yaml: ").splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("f.yaml: odds: found an unknown key")


@pytest.mark.parametrize("key", ["a\nb\nc", "\x1b[2J", "k" * 100_000, "٣"])
def test_explain_errors_of_a_hostile_key_stays_short_and_on_one_line(key: str) -> None:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate({key: dict.fromkeys(map(str, range(100_000)))})
    line = explain_errors(error.value, Outer)
    assert line.isprintable()
    assert len(line) < 400


def test_describe_type_of_a_path_or_nothing_has_words() -> None:
    assert describe_type(Path | None) == "a path, or nothing"


def test_list_names_past_its_limit_counts_the_rest() -> None:
    assert list_names(["one", "two", "three"], 8, where=" (`x`)") == "one, two and 1 more (`x`)"
    assert list_names(["one"], last=" or ") == "one"
    assert list_names([]) == ""
    assert list_names(map(str, range(100_000)), 5) == "0, 1 and 99998 more"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        ({}, "an empty mapping"),
        ({"a": 1, "b": 2}, "a mapping with a, b"),
        ("x" * 999, repr("x" * 55) + "..."),
        (10**99, "an integer of 329 bits"),
    ],
    ids=lambda value: str(value)[:9],
)
def test_spell_value_is_short_and_as_a_config_has_it(value: object, words: str) -> None:
    assert spell_value(value) == words
