"""Labels of nodes: their classes, classes that are none, and columns that give a label away."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from securefg.data.tabular.encoding import GAPS, as_numbers
from securefg.data.tabular.faults import Fix
from securefg.data.tabular.schema import Holders, count_records
from securefg.data.tabular.text_table import FORMULA
from securefg.foundation.quoting import shown
from securefg.foundation.ranks import average_ranks
from securefg.settings.tables import TableSettings

GIVEN_AWAY = 0.99
"""From this ROC AUC on, a single feature tells the label."""
LEAST_OF_EACH = 10
MOST_LISTED = 10

UNDECIDED = {"pending", "under review", "in review", "in progress", "undecided", "to be decided"}
UNDECIDED |= {"tbc", "open case", "offen", "in pr\u00fcfung"}
"""Labels that nobody has given yet, in lower case."""

Complaint = tuple[str, str, Fix | None]
"""What was found, what was wanted, and the change of tables.yaml that helps."""


def class_complaints(
    labels: list[str | None], holders: Holders, settings: TableSettings
) -> Iterator[Complaint]:
    """Yield what is wrong with classes that the tables name. Declared classes are the operator's.

    Names of classes enter the schema, so a rare one must be declared.
    """
    if settings.classes:
        return
    counts = count_records(labels, holders)
    least = settings.min_records
    odd = next((name for name in counts if FORMULA.fullmatch(name)), None)
    if odd is not None:
        yield f"class {shown(odd)}, which a spreadsheet runs", "names without = or @ in front", None
    rare = sorted(name for name, count in counts.items() if count < least)
    if rare:
        first = f"class {shown(rare[0])} in {counts[rare[0]]} records"
        more = f", and {len(rare) - 1} classes more" if rare[1:] else ""
        wanted = f"{least} records at one organisation, or public names in tables.yaml"
        yield first + more, f"{wanted}: `classes: {_listed(counts)}`", None
    yield from _odd_names(counts, settings)
    yield from _foreign_names(labels, holders)


def _foreign_names(labels: list[str | None], holders: Holders) -> Iterator[Complaint]:
    """Yield two organisations that have no class in common, such as yes and no beside 1 and 0."""
    names: dict[str, set[str]] = {}
    for label, holding in zip(labels, holders, strict=True):
        for holder in holding if label is not None else ():
            names.setdefault(holder, set()).add(str(label))
    several = {holder: classes for holder, classes in names.items() if len(classes) > 1}
    for (here, first), (there, second) in itertools.combinations(several.items(), 2):
        if not first & second:
            listed = (
                f"{' and '.join(map(shown, sorted(classes)[:2]))} at {holder}"
                for holder, classes in ((here, first), (there, second))
            )
            wanted = "the same names of classes at all organisations"
            yield f"classes {', but '.join(listed)}", wanted, None
            return


def _odd_names(counts: Counter[str], settings: TableSettings) -> Iterator[Complaint]:
    declare = "in tables.yaml `classes: [...]` if these are the classes"
    alike: dict[str, list[str]] = {}
    for name in counts:
        number = as_numbers([name])
        key = name.casefold() if number is None else f"{number[0]:g}"
        alike.setdefault(key, []).append(name)
    twins = next((names for names in alike.values() if len(names) > 1), None)
    if twins is not None:
        pair = " and ".join(shown(name, 30) for name in twins[:2])
        yield f"classes {pair}", f"one spelling; {declare}", None
        return
    gaps = [name for name in counts if name.casefold() in GAPS | UNDECIDED or name == "-1"]
    if gaps and len(counts) > 2:
        words = json.dumps([*settings.missing, *gaps], ensure_ascii=False)
        advice = f"`missing: {words}` for no label; {declare}"
        yield f"a class {' and '.join(map(shown, gaps))}", advice, Fix({"missing": gaps})
    numbers = as_numbers(list(counts))
    if numbers is not None and bool((numbers % 1).any()):
        yield f"classes such as {min(counts, key=len)}: a score?", f"classes; {declare}", None


def _listed(counts: Counter[str]) -> str:
    """Return the classes as tables.yaml has them, if they are few."""
    few = sorted(counts) if len(counts) <= MOST_LISTED else []
    return json.dumps(few, ensure_ascii=False) if few else "[...]"


def copied_label(labels: list[str | None], values: list[str | None]) -> bool:
    """Return whether a column has one value for every class, a gap included, and the other way
    round. Such a column is the label under another name."""
    known = [(label, value) for label, value in zip(labels, values, strict=True) if label]
    pairs = set(known)
    sizes = {len(pairs), len({label for label, _ in pairs}), len({value for _, value in pairs})}
    return len(sizes) == 1 and len(pairs) > 1 and len(known) >= 2 * LEAST_OF_EACH


def telling_features(features: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[int, float]:
    """Return the features that alone tell two classes apart, with their ROC AUC.

    Such a column is often filled in after the label was known, so that it is empty when it matters.
    """
    known = labels >= 0
    truth = labels[known] == 1
    positive, negative = int(truth.sum()), int((~truth).sum())
    if labels.max(initial=0) > 1 or min(positive, negative) < LEAST_OF_EACH:
        return {}
    telling = {}
    for place, column in enumerate(features[known].T):
        ranks = np.asarray(average_ranks(column))
        above = float(ranks[truth].sum()) - positive * (positive + 1) / 2
        area = above / (positive * negative)
        if max(area, 1 - area) >= GIVEN_AWAY:
            telling[place] = max(area, 1 - area)
    return telling
