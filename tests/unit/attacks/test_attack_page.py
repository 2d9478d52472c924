"""Every attack says what it means for a person and what stops it; the page says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attacks import get_active, get_attack, load_active_attacks, load_shipped_attacks
from attacks.page import attack_paragraph, write_page


def is_for_people(exposes: str, stopped_by: str) -> bool:
    return len(exposes) > 20 and len(stopped_by) > 10 and "_" not in exposes + stopped_by


def test_attacks_say_what_they_expose_and_what_stops_them() -> None:
    attacks = [get_attack(name) for name in load_shipped_attacks()] + [
        get_active(name) for name in load_active_attacks()
    ]
    assert len(attacks) > 50
    assert [a.name for a in attacks if not is_for_people(a.exposes, a.stopped_by)] == []


def test_is_for_people_refuses_short_texts_and_names_of_code() -> None:
    assert is_for_people("Who is linked to whom in a shard", "noise on the sums")
    assert not is_for_people("Links", "noise on the sums")
    assert not is_for_people("Who is linked to whom in a shard", "noise")
    assert not is_for_people("Who is linked to whom in a shard", "use local_gaussian there")


def test_the_page_of_attacks_is_made_from_their_declarations() -> None:
    wanted = "run `python -m attacks.page > docs/reference/attacks.md`"
    assert Path("docs/reference/attacks.md").read_text() == write_page(), wanted


def test_a_changed_declaration_changes_the_page() -> None:
    attack = get_attack("similar_links")
    assert attack_paragraph(replace(attack, stopped_by="nothing at all")) not in write_page()
    assert attack_paragraph(attack) in write_page()
