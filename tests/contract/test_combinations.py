"""Every combination of method, private field and defence runs, or is refused before the start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from securefg.foundation.errors import InputError, SecurefgError
from securefg.methods.registry import SHIPPED, get_method
from securefg.privacy.ledger import Mechanism, read_ledger
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.settings.config import parse_config
from securefg.settings.privacy import shipped_defences
from tests.contract.combinations import (
    DEFENCES,
    FORMS,
    MASKED,
    NOISE,
    Combination,
    combinations,
    one_field_each,
)

LEAST_PLANNED = {"plain": 40, "masks": 30, "committee": 28, "local_gaussian": 40, "dp_sgd": 2}
"""How many combinations are not refused at least: a rule that refuses everything would pass."""
WAY_OUT = re.compile(
    r"\b(expected|allowed|set |leave |let |this run sends|masks it|is the defence here|counts it)"
)
"""Words before the alternative in a refusal."""


def key_of(combination: Combination) -> str:
    return json.dumps(combination.tree(Path()), sort_keys=True)


def refusal(combination: Combination) -> str:
    """Return the refusal of a config before anything is built, or nothing."""
    try:
        prepare(parse_config(combination.tree(Path())))
    except SecurefgError as error:
        return str(error)
    return ""


def outcome(combination: Combination, root: Path) -> RunFolder | str:
    """Return the finished run. A host may refuse its own data, before anything was sent."""
    try:
        return runner.start(parse_config(combination.tree(root))).folder
    except InputError as error:
        if root.is_dir() and any(root.iterdir()):
            raise
        return str(error)


def flaws(combination: Combination, run: RunFolder) -> list[str]:
    """Return where the books of a run differ from the defence that was asked for."""
    noise, _, masks = combination.defence.partition(", ")
    booked = [release.mechanism for release in read_ledger(run.ledger_path)]
    flaw_list = []
    if (masks or noise in MASKED) and not any(one.masked for one in booked):
        flaw_list.append("nothing was masked")
    field_bookings = [one for one in booked if one.field == combination.field]
    if combination.field is None or noise in ("plain", *MASKED):
        return flaw_list
    flaw_list += [] if field_bookings else ["nothing carries the noise"]
    return flaw_list + [
        f"booked as {one.rule}" for one in field_bookings if not is_noised(one, noise)
    ]


def is_noised(mechanism: Mechanism, noise: str) -> bool:
    """Return whether noise of the settled size by this defence is booked."""
    return mechanism.rule == noise and mechanism.noise_multiplier == NOISE


def flaws_of_all(chosen: Iterable[Combination], root: Path) -> dict[Combination, list[str] | str]:
    """Run the combinations that are not refused, like configs once, and return all flaws."""
    done: dict[str, RunFolder | str] = {}
    flaws_by_combination: dict[Combination, list[str] | str] = {}
    for combination in chosen:
        key = key_of(combination)
        if key not in done:
            done[key] = outcome(combination, root / str(len(done)))
        run = done[key]
        if isinstance(run, str):
            flaws_by_combination |= {} if WAY_OUT.search(run) else {combination: run}
        elif wrong := flaws(combination, run):
            flaws_by_combination[combination] = wrong
    return flaws_by_combination


@pytest.fixture(scope="module")
def refusals() -> dict[Combination, str]:
    known = {key_of(c): c for c in combinations()}
    said = {key: refusal(combination) for key, combination in known.items()}
    return {c: said[key_of(c)] for c in combinations()}


def test_combinations_cover_all_methods_fields_and_defences() -> None:
    assert {form.method["name"] for form in FORMS.values()} == set(SHIPPED)
    for name in SHIPPED:
        private = {
            f"{message.__name__}.{field}"
            for message in get_method(name).messages
            for field, declaration in message.declarations.items()
            if declaration.is_private
        }
        forms = [form for form in FORMS.values() if form.method["name"] == name]
        assert private == {field for form in forms for field in form.fields}
    assert {d.split(", ")[0] for d in DEFENCES} - set(MASKED) == set(shipped_defences())
    assert len(list(combinations())) >= 192


def test_refusals_of_combinations_name_a_setting_and_an_alternative(
    refusals: dict[Combination, str],
) -> None:
    refused = {c: said for c, said in refusals.items() if said}
    assert {c: said for c, said in refused.items() if not WAY_OUT.search(said)} == {}
    assert {
        said for said in refused.values() if not said.startswith(("privacy", "training", "method"))
    } == set()
    for defence, least in LEAST_PLANNED.items():
        assert sum(c.defence == defence and not said for c, said in refusals.items()) >= least


def test_combinations_that_are_not_refused_run_as_booked(
    refusals: dict[Combination, str], tmp_path: Path
) -> None:
    assert flaws_of_all((c for c in one_field_each() if not refusals[c]), tmp_path) == {}


@pytest.mark.slow
def test_all_combinations_that_are_not_refused_run_as_booked(
    refusals: dict[Combination, str], tmp_path: Path
) -> None:
    assert flaws_of_all((c for c in combinations() if not refusals[c]), tmp_path) == {}
