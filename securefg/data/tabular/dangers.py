"""Columns that must not become features as they stand, each with the setting that fixes it.

A column of identifiers, names or phone numbers tells who a record is about. A date or a number
with a decimal comma would be taken for a category of its own. The rules err on the side of
stopping: a line in tables.yaml lets a column pass that looks dangerous and is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from securefg.data.tabular import dates
from securefg.data.tabular.column_look import FEW, MOST, NEAR_UNIQUE, SOME, Found, Look
from securefg.data.tabular.encoding import COMMA_NUMBER, GAPS, Texts, as_number, as_numbers
from securefg.data.tabular.faults import Fix
from securefg.data.tabular.persons import (
    ADDRESS,
    find_codes,
    find_contacts,
    find_identifiers,
    find_names,
    find_places,
)
from securefg.data.tabular.schema import LARGEST, NUMBERS_PER_RECORD, Holders
from securefg.data.tabular.text_table import FORMULA
from securefg.foundation.quoting import shown
from securefg.settings.tables import TableSettings

MOST_WORDS = 5
"""So many different words beside numbers or dates may be words for a gap."""

_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.A)
_COMMAS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", re.A)
_NEGATIVE = re.compile(r"\([\d.,]+\)|[\d.,]+-|\u2212[\d.,]+", re.A)
_DIGITS = re.compile(r"[+-]?\d+", re.A)
LONGEST = 100
"""Longer texts are sentences, and no categories."""
_UNIT_NUMBER = re.compile(
    r"([€$£¥]\s?|[a-z]{1,4}\.?\s)?[+-]?\d[\d.,'\u2019\s]*([kKmM]|\s?[€$£¥%‰]|\s[a-z]{1,4}\.?)?",
    re.I,
)
TRUE = {
    "yes",
    "y",
    "true",
    "t",
    "1",
    "1.0",
    "ja",
    "j",
    "oui",
    "o",
    "si",
    "s\u00ed",
    "x",
    "on",
    "wahr",
}
FALSE = {"no", "n", "false", "f", "0", "0.0", "nein", "non", "off", "falsch"}
MIXED = 0.1
_FILLER = re.compile(r"[+-]?9{3,}(\.[09]+)?|[+-]9{2,}(\.[09]+)?", re.A)
_MONTHS_AND_WEEKS = (
    (dates.MONTH_DIGITS, "%Y%m", "months without separators"),
    (dates.WEEK_DIGITS, "%G%V", "weeks without separators"),
)
_UNIX = (946_684_800, 2_208_988_800)
"""2000 and 2040 in seconds since 1970."""


@dataclass(frozen=True)
class Danger:
    """A column, what is dangerous about it, what to write into tables.yaml, and the safe choice."""

    column: str
    found: str
    advice: str
    fix: Fix | None


def find_dangers(
    columns: dict[str, list[str | None]], settings: TableSettings, holders: Holders
) -> Iterator[Danger]:
    """The dangers of all columns that no rule of tables.yaml declares, the first of each."""
    for name, values in columns.items():
        if name in (*settings.date, *settings.bins, *settings.range, *settings.values):
            continue
        look = Look(name, values, settings, holders)
        gaps = _find_gaps(look)
        if gaps is not None:
            yield Danger(name, *gaps[:2], gaps[2] if len(gaps) > 2 else None)
            look = look.without(gap_words(look))
        found = next((text for rule in _RULES if (text := rule(look))), None)
        if found is not None and look.values:
            yield _judge_column(look, found)


def _judge_column(look: Look, danger_parts: Found) -> Danger:
    """Return the danger with the rule's fix. A column without a fix is best left out."""
    assert danger_parts is not None
    fix = danger_parts[2] if len(danger_parts) > 2 else Fix({"ignore": [look.name]})
    return Danger(look.name, danger_parts[0], danger_parts[1], fix)


def header_dangers(columns: dict[str, list[str | None]]) -> Iterator[Danger]:
    """The first line is a record rather than names, if it has numbers, dates, or values."""
    for name, values in columns.items():
        is_value = dates.DATE.fullmatch(name) or ADDRESS.fullmatch(name) or as_numbers([name])
        if is_value is not None or name in values or FORMULA.fullmatch(name):
            yield Danger(name, "no name of a column", "a first line with the columns' names", None)


def twin_names(columns: dict[str, list[str | None]]) -> Iterator[Danger]:
    """Columns whose names differ by case or blanks alone, such as Age and age."""
    first: dict[str, str] = {}
    for name in columns:
        other = first.setdefault("".join(name.casefold().split()), name)
        if other != name:
            look = Look(name, columns[name], TableSettings(), ())
            twin = f"a name like that of {shown(other)}"
            yield Danger(name, twin, look.ignore, Fix({"ignore": [name]}))


def name_danger(name: str, values: Texts, settings: TableSettings) -> Danger | None:
    """Return what is dangerous about a column whose values would be shared as names."""
    look = Look(name, values, settings, ())
    found = find_names(look)
    return None if found is None else _judge_column(look, found)


def _find_formulas(look: Look) -> Found:
    """Texts that other organisations' spreadsheets would run, once the schema is in a table."""
    odd = next((value for value in look.counts if FORMULA.fullmatch(value)), None)
    if odd is None or look.is_number:
        return None
    return f"{shown(odd, 30)}, which a spreadsheet runs", f"texts without = or @, or {look.ignore}"


def _find_misread(look: Look) -> Found:
    """UTF-8 that was once read as a western encoding and saved again."""
    for value in look.counts if look.is_category else ():
        if not value.isascii() and (meant := _meant_text(value)) is not None:
            found = f"{shown(value, 30)}, perhaps {shown(meant, 30)} in a wrong encoding"
            return found, f"UTF-8, exported anew, or {look.ignore}"
    return None


def _meant_text(value: str) -> str | None:
    try:
        meant = value.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return None
    return meant if len(meant) < len(value) else None


def _too_large(look: Look) -> Found:
    longest = max(map(len, look.counts), default=0)
    if look.is_category and longest > LONGEST:
        what = "whole numbers" if look.share(_DIGITS.fullmatch) == 1 else "texts"
        return f"{what} of up to {longest} characters", look.ignore
    if not look.is_number or look.is_declared:
        return None
    largest = max(look.counts, key=lambda v: abs(as_number(v)))
    return (
        (f"numbers as large as {largest}", look.range)
        if abs(as_number(largest)) > LARGEST
        else None
    )


def _find_thousands(look: Look) -> Found:
    """Points or commas that may stand between thousands: 1.234 is two numbers."""
    if look.is_declared:
        return None
    plain = f"numbers without them, or {look.range} if decimals follow"
    if look.share(_POINTS.fullmatch) > SOME and look.share(_is_grouped) == 1:
        has_many = look.share(lambda v: v.count(".") > 1) > 0
        problem_text = (
            "points between thousands" if has_many else "points before three digits: thousands?"
        )
        advice = '`decimal: ","`' if look.settings.decimal == "." else "numbers without them"
        if has_many and look.settings.decimal == ".":
            return problem_text, advice, Fix({"decimal": ","})
        return (
            problem_text,
            advice if has_many else f"{advice} if so, or {look.range} if decimals follow",
        )
    if look.settings.decimal == "," or look.share(_COMMAS.fullmatch) < MOST:
        return None
    if look.share(lambda v: "." in v or v.count(",") > 1) > 0:
        return "numbers with commas between thousands", "numbers without them"
    return "commas before three digits: thousands?", f'{plain.split(",")[0]}; `decimal: ","` if not'


def _is_grouped(value: str) -> bool:
    """Points in groups of three digits, or a whole number below a thousand."""
    return bool(_POINTS.fullmatch(value) or re.fullmatch(r"[+-]?\d{1,3}", value, re.A))


def _decimal_commas(look: Look) -> Found:
    if look.settings.decimal == "," or look.is_number or look.is_declared:
        return None
    has_commas = look.share(lambda v: "," in v and COMMA_NUMBER.fullmatch(v)) > 0
    if has_commas and look.share(_is_any_number) >= MOST:
        return "numbers with a decimal comma", '`decimal: ","`', Fix({"decimal": ","})
    return None


def _is_any_number(value: str) -> bool:
    """A number with a decimal point or with a decimal comma: banks write them differently."""
    return COMMA_NUMBER.fullmatch(value) is not None or as_numbers([value]) is not None


def _find_dates(look: Look) -> Found:
    matches = [value for value in look.counts if dates.DATE.fullmatch(value)]
    share = look.share(dates.DATE.fullmatch)
    if share >= SOME and not look.is_number:
        advice = f"{dates.format_advice(look.key, matches)}, or {look.ignore}"
        rule = _date_fix(look, matches)
        if share == 1:
            return "dates", advice, rule
        odd = [value for value in look.counts if not dates.DATE.fullmatch(value)]
        if any(map(_has_digits, odd)) or len(odd) > MOST_WORDS:
            advice = f"one spelling for all dates, or {look.ignore}"
            return f"dates beside {shown(odd[0], 30)}", advice
        words = Fix({**rule.settings, "missing": odd}) if "date" in rule.settings else rule
        advice = f"{_missing_advice(look, set(odd))} with {advice}"
        return f"dates beside {shown(odd[0], 30)}", advice, words
    if look.share(dates.MONTH_OR_QUARTER.fullmatch) >= MOST and not look.is_number:
        forms = dates.fitting_formats(look.counts)
        rule_text = f"{dates.date_rule(look.key, forms[0])}, " if forms else ""
        advice = f"{rule_text}{_values_advice(look)}, or {look.ignore}"
        return "months, quarters or weeks", advice, _date_fix(look, look.counts)
    return _dates_as_numbers(look)


def _has_digits(value: str) -> bool:
    return any(character.isdigit() for character in value)


def _date_fix(look: Look, values: Iterable[str]) -> Fix:
    """Read the dates if one format alone fits them. Leave the column out otherwise."""
    forms = dates.fitting_formats(values)
    if not forms or (len(forms) > 1 and forms[0] is not None):
        return Fix({"ignore": [look.name]})
    return Fix({"date": {look.name: dates.rule_settings(forms[0])}})


def _dates_as_numbers(look: Look) -> Found:
    if look.share(dates.COMPACT.fullmatch) >= MOST and len(look.counts) > 2:
        rule = Fix({"date": {look.name: dates.rule_settings("%Y%m%d")}})
        advice = f"{dates.date_rule(look.key, '%Y%m%d')}, or `range`"
        return "dates without separators", advice, rule
    for pattern, form, what in _MONTHS_AND_WEEKS:
        if look.share(pattern.fullmatch) >= MOST and len(look.counts) > 2 and look.is_number:
            rule = Fix({"date": {look.name: dates.rule_settings(form)}})
            return what, f"{dates.date_rule(look.key, form)}, or {look.range}", rule
    if look.share(dates.TIME.fullmatch) >= MOST:
        return "times of day", f"{look.ignore}, or hours as a number with `bins`"
    if not look.is_number or len(look.values) < FEW:
        return None
    kinds = [("unix", 1, _UNIX), ("unix_ms", 1000, _UNIX)]
    if any(dates.DATED.fullmatch(word) for word in look.words):
        kinds.append(("excel", 1, dates.SERIAL_DAYS))
    for form, unit, (low, high) in kinds:
        if look.share(lambda v, a=low * unit, b=high * unit: a <= as_number(v) <= b) >= MOST:  # type: ignore[misc]
            what = "days as a spreadsheet counts them" if form == "excel" else "seconds since 1970"
            rule = Fix({"date": {look.name: dates.rule_settings(form)}})
            return what, f"{dates.date_rule(look.key, form)}, or `range`", rule
    return None


def _find_fillers(look: Look) -> Found:
    """Numbers such as 999 or -9999 that stand for a missing one, far from all others."""
    if not look.is_number or look.is_declared:
        return None
    rest = [as_number(value) for value in look.counts if not _FILLER.fullmatch(value)]
    least = max(2, 0.01 * len(look.values))
    span = max(rest) - min(rest) if rest else 0
    far = [
        value
        for value, count in look.counts.items()
        if rest and count >= least and _FILLER.fullmatch(value)
        if not min(rest) - span <= as_number(value) <= max(rest) + span
    ]
    if not far:
        return None
    advice = f"{_missing_advice(look, set(far))} for a gap, or {look.range}"
    what = f"{', '.join(sorted(far))}, far from all other numbers: a word for a gap?"
    return what, advice, Fix({"missing": sorted(far)})


def gap_words(look: Look) -> set[str]:
    """Return the values of a column that are words for a missing value."""
    return {value for value in look.counts if value.casefold() in GAPS}


def _find_gaps(look: Look) -> Found:
    """Words for a missing value among numbers or dates, or several of them in one column."""
    words = gap_words(look)
    rest = [value for value in look.counts if value not in words]
    if look.is_declared or not words or not rest:
        return None
    measured = sum(_is_any_number(v) or dates.DATE.fullmatch(v) is not None for v in rest)
    if measured < NEAR_UNIQUE * len(rest) and len(words) < 2:
        return None
    several = ", ".join(shown(word) for word in sorted(words)[:4])
    advice = f"{_missing_advice(look, words)}, or {look.category}"
    return f"{several}: words for a gap?", advice, Fix({"missing": sorted(words)})


def _missing_advice(look: Look, words: set[str]) -> str:
    named = [*look.settings.missing, *sorted(words)]
    return f"`missing: {json.dumps(named, ensure_ascii=False)}`"


def _find_mixed(look: Look) -> Found:
    if not look.is_category or look.is_declared:
        return None
    share = look.share(lambda v: as_numbers([v]) is not None)
    if look.share(_NEGATIVE.fullmatch) > 0 and share > 0:
        odd = next(value for value in look.counts if _NEGATIVE.fullmatch(value))
        return f"negative numbers such as {shown(odd)}", "them with a minus sign before the digits"
    rare = min(look.records[value] for value in look.counts) if look.counts else 0
    numbers = sum(as_numbers([value]) is not None for value in look.counts)
    is_mixed = share >= NEAR_UNIQUE and (len(look.counts) > 2 or rare < look.settings.min_records)
    if is_mixed or (numbers >= FEW and share >= MIXED):
        words = [value for value in look.counts if as_numbers([value]) is None]
        what = f"{int(100 * share)} % numbers, and {shown(words[0])}"
        if any(map(_has_digits, words)) or len(words) > MOST_WORDS:
            return what, f"numbers alone, {look.category} or {look.ignore}"
        advice = f"{_missing_advice(look, set(words))} for a gap, {look.category}, or numbers"
        return what, advice, Fix({"missing": words})
    if look.share(_UNIT_NUMBER.fullmatch) >= MOST and len(look.counts) > FEW:
        return "numbers with a unit or a currency", f"numbers alone, or {look.ignore}"
    return None


def _near_unique(look: Look) -> Found:
    if not look.is_category or len(look.counts) < 2:
        return None
    if look.unique > NEAR_UNIQUE and len(look.values) >= FEW:
        problem_text = (
            f"{len(look.counts)} values in {len(look.values)} records: perhaps identifiers"
        )
        return problem_text, look.ignore
    least = look.settings.min_records
    if look.share(lambda v: look.records[v] >= least) < NEAR_UNIQUE:
        problem_text = f"{len(look.counts)} values, most of them in fewer than {least} records each"
        return problem_text, f"coarser values, {_values_advice(look)} or {look.ignore}"
    return None


def _find_truths(look: Look) -> Found:
    """Yes and no in more than one spelling each would be as many features."""
    words = {value.casefold() for value in look.counts}
    if look.is_declared or not words <= TRUE | FALSE:
        return None
    if max(len(words & TRUE), len(words & FALSE)) < 2:
        return None
    several = " and ".join(shown(word, 30) for word in sorted(words))
    advice = f"one word for yes and one for no, or {look.category}"
    return f"{several}: yes and no?", advice, Fix({"categorical": [look.name]})


def _find_spellings(look: Look) -> Found:
    """Values that differ by case alone would be different features."""
    if look.is_number or look.is_declared:
        return None
    alike: dict[str, list[str]] = {}
    for value, count in look.counts.items():
        if count >= max(2, 0.01 * len(look.values)):
            alike.setdefault(value.casefold(), []).append(value)
    for spellings in alike.values():
        if len(spellings) > 1:
            several = " and ".join(shown(value, 30) for value in spellings[:3])
            advice = f"one spelling, or {look.category}"
            return f"{several}, the same value?", advice, Fix({"categorical": [look.name]})
    return None


def _too_few(look: Look) -> Found:
    """A mean of a few records would tell them; so would the mean of one organisation's few."""
    if look.is_category:
        return None
    least = NUMBERS_PER_RECORD * look.settings.min_records
    there = max(look.filled.values(), default=0)
    if there >= least:
        return None
    return (
        f"numbers in {there} records",
        f"{least} at one organisation, {look.range} or {look.ignore}",
    )


def _values_advice(look: Look) -> str:
    return f"`values: {{{look.key}: [...]}}` with a public list"


_RULES: tuple[Callable[[Look], Found], ...] = (
    _find_formulas,
    _find_misread,
    _too_large,
    _find_dates,
    _find_thousands,
    _decimal_commas,
    find_places,
    find_contacts,
    find_names,
    find_codes,
    find_identifiers,
    _find_fillers,
    _find_mixed,
    _near_unique,
    _find_truths,
    _find_spellings,
    _too_few,
)
