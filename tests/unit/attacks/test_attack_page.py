"""Every attack says what it means for a person and what stops it; the page says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attacks import active, get_active, get_attack, shipped
from attacks.page import page, paragraph


@pytest.mark.parametrize("name", [*shipped(), *active()])
def test_an_attack_says_what_it_means_for_a_person_and_what_stops_it(name: str) -> None:
    attack = get_active(name) if name in active() else get_attack(name)
    assert len(attack.exposes) > 20
    assert len(attack.stopped_by) > 10
    assert "_" not in attack.exposes + attack.stopped_by  # words for people


def test_the_page_of_attacks_is_made_from_their_declarations() -> None:
    wanted = "run `python -m attacks.page > docs/attacks.md`"
    assert Path("docs/attacks.md").read_text() == page(), wanted


def test_a_changed_declaration_changes_the_page() -> None:
    attack = get_attack("similar_links")
    assert paragraph(replace(attack, stopped_by="nothing at all")) not in page()
    assert paragraph(attack) in page()
