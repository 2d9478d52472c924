"""A mask key serves one session, round, message and field, and nothing else has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from securefg.secagg import derive
from securefg.secagg.derive import (
    FreshContexts,
    MaskContext,
    Purpose,
    key_info,
    next_link,
    pair_tag,
    session_id,
    session_root,
    setup_id,
    wrapped_root,
)
from securefg.secagg.encoding import Item
from securefg.secagg.errors import MaskKeyReused
from securefg.secagg.secret import Secret

ROOT = Secret(bytes(range(32)))
CONTEXT = MaskContext(round=1, message="Update", field="weights", length=8, modulus_bits=32)
CONTEXTS = [
    MaskContext(*parts)
    for parts in itertools.product((0, 1, 11), ("A", "B"), ("x", "y"), (8, 9), (32, 64))
]
PAIRS = [(0, 1), (0, 2), (1, 2), (0, 11), (1, 0)]


def mask_keys() -> set[bytes]:
    return {
        derive.pair_mask_key(ROOT, one, other, context).reveal()
        for one, other in PAIRS[:-1]
        for context in CONTEXTS
    }


def test_every_pair_round_message_field_length_and_modulus_has_its_own_key() -> None:
    assert len(mask_keys()) == len(PAIRS[:-1]) * len(CONTEXTS)


Items = tuple[Item, ...]
MUTANTS: dict[str, Callable[[Items], Items]] = {
    "round": lambda items: items[1:],
    "message": lambda items: (items[0], *items[2:]),
    "field": lambda items: (*items[:2], *items[3:]),
    "length": lambda items: (*items[:3], items[4]),
    "modulus": lambda items: items[:4],
}


@pytest.mark.parametrize("left_out", MUTANTS)
def test_a_derivation_that_leaves_out_a_part_is_caught(
    left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = derive._context_items
    monkeypatch.setattr(derive, "_context_items", lambda context: MUTANTS[left_out](whole(context)))
    with pytest.raises(AssertionError):
        test_every_pair_round_message_field_length_and_modulus_has_its_own_key()


def test_a_derivation_that_leaves_out_the_pair_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = derive.key_info
    monkeypatch.setattr(
        derive, "key_info", lambda purpose, a, b, *items: whole(purpose, 0, 0, *items)
    )
    with pytest.raises(AssertionError):
        test_every_pair_round_message_field_length_and_modulus_has_its_own_key()


def test_both_ends_of_a_pair_derive_one_mask_key() -> None:
    assert derive.pair_mask_key(ROOT, 4, 9, CONTEXT) == derive.pair_mask_key(ROOT, 9, 4, CONTEXT)


def test_a_box_key_has_a_direction() -> None:
    assert derive.box_key(ROOT, 4, 9) != derive.box_key(ROOT, 9, 4)


def test_purposes_do_not_share_keys() -> None:
    infos = {key_info(purpose, 1, 1) for purpose in Purpose}
    assert len(infos) == len(Purpose)


def test_self_masks_differ_by_session_and_party() -> None:
    keys = {
        derive.self_mask_key(ROOT, session, party, CONTEXT).reveal()
        for session in (bytes(32), bytes(range(32)))
        for party in (0, 1)
    }
    assert len(keys) == 4


def test_the_session_id_binds_roster_order_config_turn_and_model() -> None:
    roster, config, model = [b"a" * 32, b"b" * 32], b"config", b"m" * 32
    setup = setup_id(roster, config, "hybrid")
    ids = {
        session_id(setup, 0, 1, "Update", model),
        session_id(setup_id(roster[::-1], config, "hybrid"), 0, 1, "Update", model),
        session_id(setup_id(roster[:1], config, "hybrid"), 0, 1, "Update", model),
        session_id(setup_id(roster, b"other", "hybrid"), 0, 1, "Update", model),
        session_id(setup, 1, 1, "Update", model),
        session_id(setup, 0, 2, "Update", model),
        session_id(setup, 0, 1, "Count", model),
        session_id(setup, 0, 1, "Update", b"n" * 32),
    }
    assert len(ids) == 8


def test_a_chain_does_not_come_back_and_its_roots_are_of_one_session() -> None:
    link, seen = Secret(bytes(32)), set()
    for _ in range(5):
        seen |= {session_root(link, bytes([s] * 32)).reveal() for s in (1, 2)}
        seen.add(link.reveal())
        link = next_link(link)
    assert len(seen) == 15


def test_what_is_wrapped_comes_out_under_the_same_key_session_and_pair_alone() -> None:
    root, key = Secret(bytes(range(32))), session_root(Secret(b"k" * 32), b"s" * 32)
    wrapped = Secret(wrapped_root(root, key, 1, 2))
    assert wrapped_root(wrapped, key, 1, 2) == root.reveal()
    others = [
        (session_root(Secret(b"l" * 32), b"s" * 32), 1, 2),
        (session_root(Secret(b"k" * 32), b"t" * 32), 1, 2),
        (key, 2, 1),
        (key, 1, 3),
    ]
    assert all(wrapped_root(wrapped, *other) != root.reveal() for other in others)
    assert pair_tag(root, 1, 2) == pair_tag(root, 2, 1) != pair_tag(root, 1, 3)


def test_a_context_is_claimed_once() -> None:
    contexts = FreshContexts()
    for field in ("weights", "bias"):
        contexts.claim(MaskContext(1, "Update", field, 8, 32))
    with pytest.raises(MaskKeyReused, match="round 1, message 'Update', field 'weights'"):
        contexts.claim(CONTEXT)


def test_another_length_or_modulus_does_not_make_a_context_fresh() -> None:
    contexts = FreshContexts()
    contexts.claim(CONTEXT)
    with pytest.raises(MaskKeyReused):
        contexts.claim(MaskContext(1, "Update", "weights", 9, 64))
