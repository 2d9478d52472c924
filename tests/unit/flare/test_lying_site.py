"""A site that lies about one pair of masks is named by a deployed server, which goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.protocol.transcript import read_transcript
from securefg.secagg.secret import Secret
from securefg.secagg.session import Session
from tests.small import config
from tests.unit.flare.federation_world import World

PLAIN = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
SHARES = "partition.shares=[.5,.5,.5,.5]"
LIAR, VICTIM = 3, 1


@pytest.mark.parametrize("keys", ["hybrid", "classical"])
def test_site_that_lies_about_a_tag_is_named_and_others_go_on(
    keys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Session._wrap_root

    def wrapped(session: Session, drop_root: Secret, place: int, peer: int) -> bytes:
        row = honest(session, drop_root, place, peer)
        if (session.clients[place], session.clients[peer]) != (LIAR, VICTIM):
            return row
        session._tags[min(place, peer), max(place, peer)] = bytes(16)  # it stands by its lie
        return row[:32] + bytes(16)

    monkeypatch.setattr(Session, "_wrap_root", wrapped)
    masked = f"privacy.secure_aggregation={{keys: {keys}}}"
    world = World(tmp_path, config(tmp_path, PLAIN, masked, SHARES, "training.rounds=3"))
    assert all(len(hosts) == 1 for hosts in world.assignment.values())
    folder = world.run(world.job())
    summary = folder.summary()
    assert summary.rounds == 3
    assert summary.blamed == {str(LIAR): "signed a tag that its key does not give"}
    sums = [r.clients for r in read_transcript(folder.transcript) if r.sender == "sum"]
    assert sums == ["0-2"] * 3
    for site in world.assignment:
        assert not (world.kits.home(site) / "refusals.jsonl").exists()
