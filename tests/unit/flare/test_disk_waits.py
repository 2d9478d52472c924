"""What a step waits for: a disk is slow, so books are waited for once and nothing else is."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from pathlib import Path

import pytest

from securefg.site.clock import open_book
from tests.small import config
from tests.unit.flare.federation_world import SITES, World

ROUNDS = 4


def test_a_site_waits_for_the_disk_once_per_answer_and_the_server_once_per_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false}"
    world = World(tmp_path, config(tmp_path, f"training.rounds={ROUNDS}", plain))
    run, waits, sync = world.start(world.job()), Counter[str](), os.fsync

    def counted(handle: int) -> None:
        names = {frame.name for frame in traceback.extract_stack()}
        waits[
            "site" if "_host_answers" in names else "server" if "_receive_replies" in names else ""
        ] += 1
        sync(handle)

    monkeypatch.setattr(os, "fsync", counted)
    _, error = run.execute()
    assert error is None
    answers = sum(len(world.left(site)) > 0 for site in SITES)
    assert answers == 3
    asked = waits["site"] // answers  # a round is one step, but for what is asked at the start
    assert ROUNDS <= asked <= ROUNDS + 1
    assert waits["site"] == answers * asked
    assert waits["server"] == asked


def test_a_head_that_the_machines_end_left_behind_is_caught_up(tmp_path: Path) -> None:
    open_book(tmp_path / "book").create()
    head = tmp_path / "book.head"
    old = head.read_text()
    for number in range(3):
        open_book(tmp_path / "book").append([{"number": number}])
    new = head.read_text()
    head.write_text(old)
    assert [line["number"] for line in open_book(tmp_path / "book").lines()] == [0, 1, 2]
    assert head.read_text() == new
