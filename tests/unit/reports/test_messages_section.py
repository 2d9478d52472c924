"""Messages are added up from the transcript, and damage is told of."""

from __future__ import annotations

import os
import re

from securefg.protocol.transcript import Record, TranscriptWriter
from securefg.reports.headline import make_headline
from securefg.reports.page import build_report
from securefg.reports.results import read_results, read_traffic
from securefg.runs.folder import RunFolder
from tests.unit.reports.runs import MakeRun


def dropped(client: int) -> Record:
    return Record(99, 3, 1, 1, 0.0, "h", ("server",), "dropped", str(client), 0, 0, note="<late>")


def rows_of(page: str) -> list[list[str]]:
    """The cells of the table of messages, row by row."""
    table = page.partition('aria-label="Messages by kind"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table)[1:]
    return [re.findall(r">([^<>]+)<", row) for row in rows]


def test_kinds_are_counted_per_receiver_and_stored_once(make_run: MakeRun) -> None:
    run = make_run()
    results = read_results(run)
    down, up = results.traffic.kinds
    assert (down.kind, down.messages, down.kept, down.records) == ("fedgl.Globals", 9, 2, 3)
    assert (up.messages, up.kept, up.records) == (9, 6, 9)
    down_row, up_row = rows_of(build_report(run).read_text())
    assert down_row[:3] == ["fedgl.Globals", "server → client", "9"]
    assert (down_row[-1], up_row[1], up_row[-1]) == ("2 of 3", "client → server", "6 of 9")


def test_transcript_and_summary_agree_to_the_byte(make_run: MakeRun) -> None:
    assert "to what the run counted, to the byte" in build_report(make_run()).read_text()


def test_drop_outs_are_counted_by_reason(spoilt: RunFolder) -> None:
    writer = TranscriptWriter(spoilt.transcript)
    writer.append(dropped(0))
    writer.append(dropped(2))
    writer.close()
    results = read_results(spoilt)
    assert results.traffic.drop_reasons == (("<late>", 2),)
    assert len(results.traffic.kinds) == 2
    assert (
        '<th scope="row">&lt;late&gt;</th><td class="n">2</td>' in build_report(spoilt).read_text()
    )


def test_torn_transcript_is_told_of_and_read_to_the_tear(spoilt: RunFolder) -> None:
    path = spoilt.transcript / "messages.bin"
    os.truncate(path, path.stat().st_size - 5)
    results = read_results(spoilt)
    assert sum(kind.records for kind in results.traffic.kinds) == 11
    assert "The transcript is not whole.</p>" in build_report(spoilt).read_text()
    assert "The transcript is not whole" in [title for title, _ in make_headline(results).notices]


def test_missing_transcript_is_told_of(spoilt: RunFolder) -> None:
    (spoilt.transcript / "messages.bin").unlink()
    assert read_traffic(spoilt.transcript).damage is not None
    page = build_report(spoilt).read_text()
    assert "The transcript cannot be read." in page
    assert page.count("Not known, since the transcript cannot be read.") == 1
