"""Columns that name a person, a place, a machine or a record, by their values or their names."""

from __future__ import annotations

import re

from securefg.data.tabular.column_look import FEW, MOST, NEAR_UNIQUE, SOME, Found, Look
from securefg.data.tabular.encoding import as_number
from securefg.data.tabular.faults import Fix

_PHONE = re.compile(r"(\+|00?)[1-9][\d ()/.-]{5,}|\(?\d{2,5}\)?[ /.-]\d[\d /.-]{4,}", re.A)
_DIALLED = re.compile(r"\+|00?[1-9]")
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_MACHINE = re.compile(
    r"\d{1,3}(\.\d{1,3}){3}([/:]\d{1,5})?|([0-9a-f]{2}[:-]){5}[0-9a-f]{2}"
    r"|([0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(/\d{1,3})?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.I | re.A,
)
_IBAN = re.compile(r"[A-Z]{2}\d{2}( ?[A-Z0-9]){11,30}", re.I | re.A)
_PLACE = re.compile(
    r"\(?[+-]?\d{1,3}\.\d{2,}[,; ]\s*[+-]?\d{1,3}\.\d{2,}\)?|\d{1,3}\s?°.*|point ?\(.*", re.I | re.A
)
_PLACED = re.compile(
    "lat|latitude|lon|lng|long|longitude|(breiten|längen|laengen)grad|gps|geo|coord"
)
_CODE = re.compile(r"0\d+", re.A)
_TELLING = re.compile(
    "(sur|last|first|fore|full|birth|maiden|vor|nach|familien)?names?|nom|prenom|nombre|apellido"
    "|(tele)?phone|tel|telefon|mobile|handy|fax|e?mail|iban|ssn|passport|address|adresse|anschrift"
    "|street|strasse|straße|(konto)?inhaber|holder|owner|contact|spouse|beneficiary"
)
SEVERAL_NAMES = 10
"""From so many different values of that look on, they may be persons with many records each."""
_CODED = re.compile("ids?|codes?|kennung|plz|zip|zipcode|postal|postcode|mcc|blz|bic")


def find_contacts(look: Look) -> Found:
    for pattern, problem_text in (
        (ADDRESS, "e-mail addresses"),
        (_IBAN, "account numbers (IBAN)"),
        (_MACHINE, "addresses of machines"),
    ):
        if look.share(pattern.fullmatch) >= NEAR_UNIQUE:
            return problem_text, look.ignore
    spread = len(look.counts) > 0.2 * len(look.values) or look.share(_DIALLED.match) >= MOST
    if look.share(_looks_like_phone) >= NEAR_UNIQUE and len(look.counts) > 2 and spread:
        return "phone numbers", f"{look.ignore}; `range` if they are numbers"
    return None


def _looks_like_phone(value: str) -> bool:
    digits = sum(character.isdigit() for character in value)
    return 7 <= digits <= 15 and _PHONE.fullmatch(value) is not None and value.count(".") != 1


def find_places(look: Look) -> Found:
    """Coordinates, which lead to a person's home."""
    if look.is_declared:
        return None
    if look.share(_PLACE.fullmatch) >= NEAR_UNIQUE:
        return "coordinates of places", f"{look.ignore}, or regions"
    is_called = any(map(_PLACED.fullmatch, look.words))
    if not is_called or not look.is_number or len(look.counts) < FEW:
        return None
    if max(abs(as_number(value)) for value in look.counts) > 180 or look.share(_is_whole) > SOME:
        return None
    return (
        "numbers in a column that is called as coordinates are",
        f"{look.ignore}, or {look.range}",
    )


def find_names(look: Look) -> Found:
    if look.is_declared:
        return None
    advice = f"{look.ignore}; {look.category} if it names no person"
    telling = any(_TELLING.fullmatch(word) for word in look.words)
    long = look.share(lambda v: len(v) >= 7) >= NEAR_UNIQUE
    if telling and len(look.counts) > 2 and (long or not look.is_number):
        return "a column that is called as persons' names, phones or addresses are", advice
    several = look.unique > 0.1 or len(look.counts) >= SEVERAL_NAMES
    if look.share(_looks_like_name) >= 0.8 and several and len(look.values) >= FEW:
        return "what looks like names of persons", advice
    return None


def _looks_like_name(value: str) -> bool:
    """Two to four words that begin with a capital letter, "Surname, Name" included."""
    words = value.replace(",", " ").replace("-", " ").split()
    whole = all(word.rstrip(".").replace("'", "").isalpha() for word in words)
    return 2 <= len(words) <= 4 and whole and all(word[0].isupper() for word in words)


def find_codes(look: Look) -> Found:
    if not look.is_number or look.is_declared:
        return None
    if look.share(_CODE.fullmatch) > SOME:
        code = "digits with a leading zero: a code, no number"
        return code, f"{look.category} or {look.ignore}", Fix({"categorical": [look.name]})
    if look.words and any(map(_CODED.fullmatch, (look.words[0], look.words[-1]))):
        return (
            "numbers in a column that is called as codes are",
            f"{look.category} or {look.ignore}",
            Fix({"categorical": [look.name]}),
        )
    return None


def find_identifiers(look: Look) -> Found:
    """Whole numbers that name records, also as 4711.0 or 4.711e8, as exports of gaps write them."""
    if len(look.counts) < FEW or look.is_category or look.share(_is_whole) != 1:
        return None
    lengths = {len(str(abs(int(as_number(value))))) for value in look.counts}
    is_counted = any(map(_is_counted, look.parts))
    is_coded = len(lengths) <= 2 and min(lengths) >= 7 and look.unique >= 0.1
    is_coded |= len(lengths) == 1 and min(lengths) >= 6 and look.unique >= 0.98
    if is_counted or is_coded or min(lengths) >= 9:
        found = "long whole numbers: perhaps identifiers or phone numbers"
        if look.unique >= NEAR_UNIQUE or is_counted:
            found = "whole numbers, nearly every one once: perhaps identifiers"
        return found, f"{look.ignore}; {look.range} if it is a number"
    return None


def _is_whole(value: str) -> bool:
    return as_number(value).is_integer()


def _is_counted(values: list[str]) -> bool:
    """Return whether an organisation numbers its records.

    Random numbers from three times as many would often come twice.
    """
    numbers = {int(as_number(value)) for value in values}
    is_unique = len(numbers) >= MOST * len(values)
    return len(values) >= FEW and is_unique and max(numbers) - min(numbers) < 3 * len(numbers)
