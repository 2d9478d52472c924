"""Texts that are dates: which spelling a column has, and whether days and months can be told apart.

A date never becomes a category. It becomes features by the rule `date` of tables.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import islice

LOOKED_AT = 2000
"""So many different values decide which formats fit."""
_MONTH = r"(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zä]*\.?"
DATE = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}([T ]\S+.*)?|\d{1,2}([./-])\d{1,2}\3(\d{4}|\d{2})([T ]\S+.*)?"
    rf"|(\d{{1,2}}\.?[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})([T ]\d\S+.*)?"
    r"|(19|20)\d{2}-?W[0-5]\d-?[1-7]|(19|20)\d{2}-[0-3]\d{2}",
    re.I | re.A,
)
MONTH_OR_QUARTER = re.compile(
    rf"(19|20)\d{{2}}[-/. ]?(0[1-9]|1[0-2]|Q[1-4]|W[0-5]\d)|(0[1-9]|1[0-2])[-/.](19|20)\d{{2}}"
    rf"|(Q[1-4]|{_MONTH})[-/. ](19|20)\d{{2}}|(19|20)\d{{2}}[-/. ]{_MONTH}",
    re.I | re.A,
)
MONTH_DIGITS = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])", re.A)
WEEK_DIGITS = re.compile(r"(19|20)\d{2}(0[1-9]|[1-4]\d|5[0-3])", re.A)
COMPACT = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", re.A)
TIME = re.compile(r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?", re.A)
DATED = re.compile(
    "date|datum|day|tag|opened|closed|since|seit|born|birth|birthday|dob|geburt|geburtsdatum"
    "|created|updated|expires|expiry|joined|signed"
)
"""Words in the name of a column of dates."""

DAYS: tuple[str, ...] = (
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
)
DAYS += ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%B %d, %Y")
DAYS += ("%b %d, %Y", "%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%Y-%j", "%B %Y", "%b %Y")
CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %H:%M:%S.%f")
FORMATS = tuple(day + clock for day in DAYS for clock in CLOCKS)
REFERENCE = "2025-01-01"
"""The public day in advice; an operator may choose another one."""
EXCEL_START = date(1899, 12, 30)
SERIAL_DAYS = (3_654, 54_788)
"""1910 and 2050 in a spreadsheet's days since 1899-12-30."""


def as_date(value: str, form: str | None) -> date:
    """Return the day of a text, as the text has it. Raise ValueError where the format does not fit.

    form  as `datetime.strptime` has it; unix and unix_ms count since 1970 in UTC, and excel counts
          days since 1899-12-30; None is ISO 8601
    """
    try:
        if form in ("unix", "unix_ms"):
            seconds = float(value) / (1000 if form == "unix_ms" else 1)
            return datetime.fromtimestamp(seconds, UTC).date()
        if form == "excel":
            return EXCEL_START + timedelta(days=int(float(value)))
    except (OverflowError, OSError) as error:
        raise ValueError(value) from error
    if form is not None and "%V" in form and "%u" not in form:
        value, form = f"{value} 1", f"{form} %u"  # a week is its Monday
    if form is not None:
        return datetime.strptime(value, form).date()
    return datetime.fromisoformat(value).date()


def fitting_formats(values: Iterable[str]) -> list[str | None]:
    """Return the formats that fit all values; None stands for ISO 8601."""
    looked_at = list(islice(values, LOOKED_AT))
    return [form for form in (None, *FORMATS) if all(_is_date(v, form) for v in looked_at)]


def _is_date(value: str, form: str | None) -> bool:
    try:
        as_date(value, form)
    except ValueError:
        return False
    return True


def rule_settings(form: str | None) -> dict[str, str]:
    """Return the rule of tables.yaml that reads dates of a format."""
    return {"reference": REFERENCE} if form is None else {"reference": REFERENCE, "format": form}


def date_rule(name: str, form: str | None) -> str:
    """Return the line of tables.yaml that reads dates of a format."""
    stated = "" if form is None else f', format: "{form}"'
    return f'`date: {{{name}: {{reference: "{REFERENCE}"{stated}}}}}`'


def format_advice(name: str, values: Iterable[str]) -> str:
    """Return the line of tables.yaml that reads these dates, with what it leaves open."""
    forms = fitting_formats(values)[:2]
    if not forms:
        return "one spelling for all dates"
    if len(forms) == 1 or forms[0] is None:
        return date_rule(name, forms[0])
    first, second = (date_rule(name, form) for form in forms)
    return f"{first} or {second} (both fit: only you know which is right)"
