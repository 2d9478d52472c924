"""A method that nobody knows says less than it sends: what is not read is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from audits.truth import UNSAID, Truth
from audits.unread_fields import unread_findings
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, public
from securefg.runs import runner
from tests import small


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return Truth.of(runner.start(small.config(tmp_path, "training.rounds=1")).folder)


def test_weights_longer_than_their_network_are_read_by_nobody(truth: Truth) -> None:
    """A record of features may ride behind the weights."""
    place = ("fedgl.Update", "weights")
    plain = truth.spoken.uploads[place]
    method = truth.experiment.method

    def longer(*arguments: object) -> list[object]:
        found = method.planned(*arguments)
        return [replace(p, dim=p.dim + 40) if p.field == "weights" else p for p in found]

    other = replace(truth.experiment, method=replace(method, planned=longer))
    found = Truth(truth.folder, other).spoken.uploads[place]
    assert not isinstance(plain, Other)
    assert isinstance(found, Other)
    assert "where the network has" in found.words


class Ask(Message, kind="unplanned.Ask"):
    rows: Tensor | None = public("what others uploaded")
    words: str = public("the same, in words")
    round: int = public("the round")


def test_what_clients_are_sent_without_a_meaning_is_unread(truth: Truth) -> None:
    method = truth.experiment.method
    other = replace(method, messages=(*method.messages, Ask))
    spoken = Truth(truth.folder, replace(truth.experiment, method=other)).spoken
    found = {place for place, meaning in spoken.sent.items() if meaning is UNSAID}
    assert found == {("unplanned.Ask", "rows"), ("unplanned.Ask", "words")}
    told = {finding.metric for finding in unread_findings(spoken, [], "made")}
    assert {"unplanned.Ask.rows", "unplanned.Ask.words"} <= told
