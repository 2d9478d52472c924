"""Values from outside are shown short, on one line, and cannot steer a terminal."""

from __future__ import annotations

from securefg.foundation.quoting import printable, shortened, shown


def test_values_are_shown_short_whatever_their_size() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * 10**6, 10**10_000, list(range(10**6)), deep, {"a": deep}, b"y" * 10**6):
        assert len(shown(value)) <= 64
    assert shown("short") == "'short'"
    assert shortened("a" * 70) == "a" * 57 + "..."


def test_control_characters_are_spelt_out() -> None:
    assert printable("\x1b[31mred\x07 \u202e\ud800 ä\n") == r"\x1b[31mred\x07 \u202e\ud800 ä" + "\n"
