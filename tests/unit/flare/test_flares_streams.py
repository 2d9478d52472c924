"""A site ends no stream but its own, and cannot take all threads of the process that listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey as Key
from nvflare.fuel.f3.cellnet.defs import MessageType
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.stream_cell import StreamCell
from nvflare.fuel.f3.streaming.blob_streamer import BlobStream
from nvflare.fuel.f3.streaming.byte_receiver import RxTask
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer, TxTask
from nvflare.fuel.f3.streaming.stream_const import StreamDataType
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey as Stream

from securefg.flare.guard.cell import OPEN_AT_ONCE, GuardedCell
from securefg.flare.guard.doors import ACK, DATA, FAULT, STREAM
from securefg.flare.guard.visits import Visits

JOB = "0a1b"
ME, HONEST, HOSTILE = f"server.{JOB}", f"bank-a.{JOB}", f"bank-c.{JOB}"


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> GuardedCell:
    """The cell of a job at the server, with FLARE's own streams on it; connected to nobody."""
    GuardedCell.visits = Visits(tmp_path_factory.mktemp("kit"), "server_job")
    found = GuardedCell(ME, root_url="tcp://localhost:1", secure=False, credentials={})
    StreamCell(found).register_blob_cb("return_only", "*", lambda *_: None)
    CoreCell.ALL_CELLS.pop(ME)
    return found


@pytest.fixture
def cell(streams: GuardedCell, tmp_path: Path) -> Iterator[GuardedCell]:
    GuardedCell.visits = Visits(tmp_path, "server_job")
    yield streams
    for task in list(RxTask.rx_task_map.values()):
        task.stop(notify=False)
    RxTask.rx_task_map.clear()


def sending(cell: Any, target: str) -> TxTask:
    """A stream of the server's to a site, not yet acknowledged."""
    blob = BlobStream(b"x" * 1000, None)
    task = TxTask(cell, 100, "securefg", "ask", target, {}, blob, False, False, False)
    ByteStreamer.tx_task_map[task.sid] = task
    return task


def arrives(cell: GuardedCell, origin: str, topic: str, **headers: Any) -> None:
    message = Message(
        {
            Key.ORIGIN: origin,
            Key.DESTINATION: ME,
            Key.MSG_TYPE: MessageType.REQ,
            Key.CHANNEL: STREAM,
            Key.TOPIC: topic,
            **headers,
        },
        b"",
    )
    cell._process_received_msg(Endpoint("server"), None, message)


def test_a_site_ends_no_stream_to_another_site(cell: GuardedCell, tmp_path: Path) -> None:
    to_honest, to_hostile = sending(cell, HONEST), sending(cell, HOSTILE)
    assert to_hostile.sid == to_honest.sid + 1  # so it can name the one before its own
    fault = {Stream.STREAM_ID: to_honest.sid, Stream.ERROR_MSG: "no room"}
    arrives(cell, HOSTILE, ACK, **fault)
    arrives(cell, HOSTILE, ACK, **{Stream.STREAM_ID: to_honest.sid, Stream.OFFSET: 10**9})
    lie = {Stream.FAILED_DESTINATION: HONEST, Stream.CHANNEL: "securefg", Stream.TOPIC: "ask"}
    arrives(cell, HOSTILE, FAULT, **fault, **lie)
    assert not to_honest.stopped
    assert to_honest.offset_ack == 0
    assert f"not number {to_honest.sid}" in (tmp_path / "visits.jsonl").read_text()
    arrives(cell, HONEST, ACK, **{Stream.STREAM_ID: to_honest.sid, Stream.OFFSET: 100})
    assert to_honest.offset_ack == 100
    arrives(cell, HONEST, ACK, **fault)
    assert to_honest.stopped  # its own it may end


def test_the_server_tells_its_job_that_a_site_is_not_to_be_reached(cell: GuardedCell) -> None:
    task = sending(cell, HONEST)
    arrives(
        cell,
        "server",
        FAULT,
        **{Stream.STREAM_ID: task.sid, Stream.ERROR_MSG: "gone", Stream.FAILED_DESTINATION: HONEST},
        **{Stream.CHANNEL: "securefg", Stream.TOPIC: "ask"},
    )
    assert task.stopped


@pytest.mark.parametrize("number", ["1", [], {}, None, 2.5])
def test_a_stream_without_a_number_is_refused(
    cell: GuardedCell, tmp_path: Path, number: object
) -> None:
    arrives(cell, HOSTILE, ACK, **{Stream.STREAM_ID: number, Stream.ERROR_MSG: "x"})
    assert "without a number" in (tmp_path / "visits.jsonl").read_text()


def begin(cell: GuardedCell, origin: str, number: int, kind: int) -> None:
    """The first piece of an answer of a site's."""
    arrives(
        cell,
        origin,
        DATA,
        **{Stream.STREAM_ID: number, Stream.SEQUENCE: 0, Stream.DATA_TYPE: kind},
        **{Stream.CHANNEL: "return_only", Stream.TOPIC: "securefg:ping", Stream.SIZE: 1000},
        **{Stream.PAYLOAD_ENCODING: "bytes"},
    )


def test_streams_that_are_never_finished_are_few(cell: GuardedCell, tmp_path: Path) -> None:
    for number in range(3 * OPEN_AT_ONCE):
        begin(cell, HOSTILE, number, StreamDataType.CHUNK)
    assert sum(origin == HOSTILE for origin, _ in RxTask.rx_task_map) == OPEN_AT_ONCE
    assert f"{OPEN_AT_ONCE} streams open" in (tmp_path / "visits.jsonl").read_text()
    for number in range(3 * OPEN_AT_ONCE):  # of others, and finished ones, as many as there are
        begin(cell, HONEST, number, StreamDataType.FINAL)
    begin(cell, HONEST, 1000, StreamDataType.CHUNK)
    assert (HONEST, 1000) in RxTask.rx_task_map
