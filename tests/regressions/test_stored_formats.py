"""Bytes of today's formats are written and read; older formats are refused by their numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from audits.findings.history import read_history
from securefg.foundation.errors import BooksDamaged, RunFolderError
from securefg.privacy.ledger import read_ledger
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.transcript import TranscriptWriter, broken_link, read_transcript
from securefg.runs.seal import read_manifest
from securefg.site.books import SiteBooks, open_books

VALUES: dict[str, Any] = {
    "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
    "sizes": torch.tensor([3, -1]),
    "half": torch.tensor([[1.5], [-2.0]], dtype=torch.bfloat16),
    "told": torch.tensor([True, False]),
    "none": torch.zeros(2, 0),
    "unit": "träume",
    "rate": 0.1,
    "left": None,
}
FRAME = bytes.fromhex(
    "534647016a0000007b22736571223a332c22726f756e64223a322c2273746570223a312c2273656e64657222"
    "3a22636c69656e742d30222c227265636569766572223a22736572766572222c226b696e64223a226665642e"
    "557064617465222c22636c69656e7473223a22302d312c35227d210000007b22756e6974223a2274725c7530"
    "306534756d65222c2272617465223a302e317d30010000000000007b2273697a6573223a7b22647479706522"
    "3a22493634222c227368617065223a5b325d2c22646174615f6f666673657473223a5b302c31365d7d2c226e"
    "6f6e65223a7b226474797065223a22463332222c227368617065223a5b322c305d2c22646174615f6f666673"
    "657473223a5b31362c31365d7d2c2277656967687473223a7b226474797065223a22463332222c2273686170"
    "65223a5b322c335d2c22646174615f6f666673657473223a5b31362c34305d7d2c2268616c66223a7b226474"
    "797065223a2242463136222c227368617065223a5b322c315d2c22646174615f6f666673657473223a5b3430"
    "2c34345d7d2c22746f6c64223a7b226474797065223a22424f4f4c222c227368617065223a5b325d2c226461"
    "74615f6f666673657473223a5b34342c34365d7d7d20200300000000000000ffffffffffffffff0000000000"
    "00803e0000003f0000403f0000803f0000a03fc03f00c00100"
)
TRANSCRIPT = bytes.fromhex(
    "534647543c0100008b01000000000000c8baae757b22666f726d6174223a322c22736571223a312c22726f75"
    "6e64223a322c2273746570223a312c22617474656d7074223a312c227365636f6e6473223a302e352c227365"
    "6e646572223a22636c69656e742d30222c22726563656976657273223a5b22736572766572225d2c226b696e"
    "64223a226665642e557064617465222c22636c69656e7473223a22302d312c35222c227061796c6f6164223a"
    "35302c22656e76656c6f7065223a3330302c2272756c6573223a7b2277656967687473223a22706c61696e22"
    "7d2c22706572736f6e616c223a5b5d2c227468696e6e6564223a66616c73652c226e6f7465223a22222c226c"
    "696e6b223a223362636534366466396366366433306233623436663261396566343839343033363033666164"
    "6535616463383130653235323536356233653632363262383066227d210000007b22756e6974223a2274725c"
    "7530306534756d65222c2272617465223a302e317d30010000000000007b2273697a6573223a7b2264747970"
    "65223a22493634222c227368617065223a5b325d2c22646174615f6f666673657473223a5b302c31365d7d2c"
    "226e6f6e65223a7b226474797065223a22463332222c227368617065223a5b322c305d2c22646174615f6f66"
    "6673657473223a5b31362c31365d7d2c2277656967687473223a7b226474797065223a22463332222c227368"
    "617065223a5b322c335d2c22646174615f6f666673657473223a5b31362c34305d7d2c2268616c66223a7b22"
    "6474797065223a2242463136222c227368617065223a5b322c315d2c22646174615f6f666673657473223a5b"
    "34302c34345d7d2c22746f6c64223a7b226474797065223a22424f4f4c222c227368617065223a5b325d2c22"
    "646174615f6f666673657473223a5b34342c34365d7d7d20200300000000000000ffffffffffffffff000000"
    "000000803e0000003f0000403f0000803f0000a03fc03f00c00100"
)
TRANSCRIPT_1 = bytes.fromhex(
    "53464754320100008b010000000000000b588a7e7b22617474656d7074223a312c22636861696e223a223036"
    "3534373430663263386239653833613830366264666133396563383032363236363664336162386637333430"
    "636461313163303266616639626239653665222c22636c69656e7473223a22302d312c35222c22656e76656c"
    "6f7065223a3330302c226b696e64223a226665642e557064617465222c226e6f7465223a22222c227061796c"
    "6f6164223a35302c22706572736f6e616c223a5b5d2c22726563656976657273223a5b22736572766572225d"
    "2c22726f756e64223a322c2272756c6573223a7b2277656967687473223a22706c61696e227d2c227365636f"
    "6e6473223a302e352c2273656e646572223a22636c69656e742d30222c22736571223a312c2273746570223a"
    "312c227468696e6e6564223a66616c73657d210000007b22756e6974223a2274725c7530306534756d65222c"
    "2272617465223a302e317d30010000000000007b2273697a6573223a7b226474797065223a22493634222c22"
    "7368617065223a5b325d2c22646174615f6f666673657473223a5b302c31365d7d2c226e6f6e65223a7b2264"
    "74797065223a22463332222c227368617065223a5b322c305d2c22646174615f6f666673657473223a5b3136"
    "2c31365d7d2c2277656967687473223a7b226474797065223a22463332222c227368617065223a5b322c335d"
    "2c22646174615f6f666673657473223a5b31362c34305d7d2c2268616c66223a7b226474797065223a224246"
    "3136222c227368617065223a5b322c315d2c22646174615f6f666673657473223a5b34302c34345d7d2c2274"
    "6f6c64223a7b226474797065223a22424f4f4c222c227368617065223a5b325d2c22646174615f6f66667365"
    "7473223a5b34342c34365d7d7d20200300000000000000ffffffffffffffff000000000000803e0000003f00"
    "00403f0000803f0000a03fc03f00c00100"
)


def an_envelope(body: bytes) -> Envelope:
    clients = Clients(((0, 2), (5, 6)))
    return Envelope(3, 2, 1, "client-0", "server", "fed.Update", clients, body)


def check(found: dict[str, Any]) -> None:
    assert found.keys() == VALUES.keys() - {"left"}
    for name, value in found.items():
        if isinstance(value, Tensor):
            assert value.dtype == VALUES[name].dtype
            assert torch.equal(value, VALUES[name])
        else:
            assert value == VALUES[name]


def test_a_frame_of_version_1_is_written_to_the_byte() -> None:
    assert codec.frame(an_envelope(codec.encode_fields(VALUES))) == FRAME
    assert codec.frame_fields(an_envelope(b""), VALUES) == FRAME


def test_a_frame_of_version_1_is_read() -> None:
    envelope = codec.unframe(FRAME)
    assert envelope == an_envelope(codec.encode_fields(VALUES))
    check(codec.decode_fields(envelope.body))


def test_transcript_of_format_2_is_written_and_read_to_the_byte(tmp_path: Path) -> None:
    (tmp_path / "messages.bin").write_bytes(TRANSCRIPT)
    (record,) = read_transcript(tmp_path)
    assert broken_link(tmp_path) is None
    check(record.fields())
    (tmp_path / "again").mkdir()
    writer = TranscriptWriter(tmp_path / "again")
    writer.append(record)
    writer.close()
    assert (tmp_path / "again" / "messages.bin").read_bytes() == TRANSCRIPT


@pytest.mark.parametrize(
    "read",
    [lambda folder: list(read_transcript(folder)), broken_link, TranscriptWriter],
    ids=["read", "checked", "written on"],
)
def test_transcript_of_format_1_is_refused_by_number(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "messages.bin").write_bytes(TRANSCRIPT_1)
    with pytest.raises(RunFolderError, match=r"messages\.bin: format: found 1; expected 2"):
        read(tmp_path)


LEDGER_1 = (
    '{"mechanism": {"field": "Update.weights", "rule": "plain"}, "clients": "0-1", "round": 1, '
    '"step": 1, "attempt": 1, "chain": "6d2c7ad4"}\n'
)
BOOK_1 = '{"n": 1, "time": "2026-01-31T12:00:00+00:00", "run": "r", "link": "6d2c7ad4"}\n'


def test_ledger_of_format_1_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text(LEDGER_1)
    with pytest.raises(RunFolderError, match=r"ledger\.jsonl:1: .*format: found 1; expected 2"):
        list(read_ledger(tmp_path / "ledger.jsonl"))


def test_books_of_format_1_are_refused_by_number(tmp_path: Path) -> None:
    open_books(tmp_path)
    (tmp_path / "ledger.jsonl").write_text(BOOK_1)
    with pytest.raises(BooksDamaged, match=r"ledger\.jsonl:1: .*format: found 1; expected 2"):
        SiteBooks(tmp_path).releases()


def test_history_of_format_1_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"schema": 1, "entries": []}')
    with pytest.raises(RunFolderError, match=r"history\.json: format: found 1; expected 2"):
        read_history(tmp_path)


def test_manifest_of_another_format_is_refused_by_number(tmp_path: Path) -> None:
    tree = {"format": 1, "files": {}, "pages": {}, "key": "00", "signature": "00"}
    (tmp_path / "manifest.json").write_text(json.dumps(tree))
    with pytest.raises(RunFolderError, match=r"manifest\.json: format: .* 2; delete it"):
        read_manifest(tmp_path)
