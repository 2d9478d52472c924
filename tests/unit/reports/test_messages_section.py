"""Messages are added up from the transcript, and damage is told of."""

from __future__ import annotations

import os

from securefg.protocol.transcript import Record, TranscriptWriter
from securefg.reports.headline import headline
from securefg.reports.page import message_section
from securefg.reports.results import read_results, read_traffic
from securefg.run.folder import RunFolder
from tests.unit.reports.runs import MakeRun


def dropped(client: int) -> Record:
    return Record(99, 3, 1, 1, 0.0, "h", ("server",), "dropped", str(client), 0, 0, note="<late>")


def test_kinds_are_counted_per_receiver_and_stored_once(make_run: MakeRun) -> None:
    down, up = message_section(read_results(make_run())).lines
    assert (down.kind, down.direction) == ("fedgl.Globals", "server → client")
    assert (down.messages, down.kept) == ("9", "2 of 3")
    assert (up.messages, up.kept) == ("9", "6 of 9")


def test_transcript_and_summary_agree_to_the_byte(make_run: MakeRun) -> None:
    assert "to the byte" in message_section(read_results(make_run())).agreement


def test_drop_outs_are_counted_by_reason(spoilt: RunFolder) -> None:
    writer = TranscriptWriter(spoilt.transcript)
    writer.append(dropped(0))
    writer.append(dropped(2))
    writer.close()
    section = message_section(read_results(spoilt))
    assert section.drop_reasons == (("<late>", "2"),)
    assert len(section.lines) == 2


def test_torn_transcript_is_told_of_and_read_to_the_tear(spoilt: RunFolder) -> None:
    path = spoilt.transcript / "messages.bin"
    os.truncate(path, path.stat().st_size - 5)
    results = read_results(spoilt)
    assert sum(kind.records for kind in results.traffic.kinds) == 11
    assert "not whole" in message_section(results).agreement
    assert "The transcript is not whole" in [title for title, _ in headline(results).notices]


def test_missing_transcript_is_told_of(spoilt: RunFolder) -> None:
    (spoilt.transcript / "messages.bin").unlink()
    assert read_traffic(spoilt.transcript).damage is not None
    assert message_section(read_results(spoilt)).damaged
