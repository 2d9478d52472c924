"""Faults of the command line itself: an unknown command or option, a value out of range."""

from __future__ import annotations

import re
from typing import Any, Final

import typer
from pydantic import ValidationError

from securefg.foundation.suggestions import (
    complain_about,
    explain_unknown_name,
    list_names,
    suggest_name,
)

USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""The class of all faults of a command line; typer exports its subclass alone."""

_COMMAND = re.compile(r"No such command '(.*?)'")
_CHOICE = re.compile(r".*is not one of (.*)\.$")
_PLAIN = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "greater than or equal to 1": "a number of at least 1",
    "greater than or equal to 0": "a number of at least 0",
}
_EXTRA = re.compile(r"Got unexpected extra arguments?\S* \((.*)\)")


def is_help(error: Exception) -> bool:
    """Return whether a group of commands was called without a command: its help is the answer."""
    return type(error).__name__ == "NoArgsIsHelpError"


def explain_usage(error: Any) -> str:
    """Return `option: found X; expected Y`, with a suggestion or the command's help."""
    words = str(error.message)
    path = error.ctx.command_path if error.ctx is not None else "securefg"
    see = f"see `{path} --help`"
    if hasattr(error, "possibilities"):
        known = [n for one in error.ctx.command.params for n in one.opts if n.startswith("--")]
        expected, hint = list_names(known, last=" or "), suggest_name(error.option_name, known)
        return complain_about(error.option_name, "an unknown option", expected, hint or see)
    if match := _COMMAND.match(words):
        return explain_unknown_name("command", match[1], sorted(error.ctx.command.commands))
    if match := _EXTRA.match(words):
        return complain_about("arguments", f"too many: {match[1]}", "fewer", see)
    if getattr(error, "param", None) is None:  # an option at the end, without its value
        return complain_about(getattr(error, "option_name", path), "nothing", "a value", see)
    return _explain_value(error, words, see)


def _explain_value(error: Any, words: str, see: str) -> str:
    option = error.param.opts[-1]
    key = option if option.startswith("-") else option.upper()
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return complain_about(key, "nothing", "a value", see)
    given_value = str(cause.errors()[0]["input"])
    if match := _CHOICE.match(words):
        known = [one.strip("' ") for one in match[1].split(",")]
        return explain_unknown_name(key, given_value, known)
    expected = words.removeprefix("Input should be ").partition(",")[0]
    return complain_about(key, given_value, _PLAIN.get(expected, expected), see)
