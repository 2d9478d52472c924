"""What a message costs from a host's tensors to the server's, over the straightforward form.

    python benchmarks/codec_speed.py

The straightforward form saves and loads arrays by the safetensors library, puts header, scalars and
arrays together by `+`, takes them apart by slices, and joins the hosts' rows by `torch.cat`. Both
sides make the same bytes and the same tensors, which is checked; they take turns in one process,
and CPU time (user and system) is summed on each side.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch
from limits import Row
from torch import Tensor

from securefg.protocol import codec
from securefg.protocol.arrays import concatenate_arrays
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public

EMPTY = Envelope(1, 1, 1, "host-0", "server", "codec_speed.Upload", Clients(((0, 75),)), b"")


class Upload(Message, kind="codec_speed.Upload"):
    rows: Tensor = private("each", "a row per client", means=Other())
    sizes: Tensor = private("sum", "a number per client", means=Other())
    rate: float = public("a rate")


Send = Callable[[Upload], bytes]
Receive = Callable[[list[bytes]], Upload]


def send(upload: Upload) -> bytes:
    return codec.frame_fields(EMPTY, upload.values())


def receive(frames: list[bytes]) -> Upload:
    found: list[dict[str, Any]] = [codec.read(codec.unframe(f).body, Upload) for f in frames]
    rows, sizes = (concatenate_arrays([each[name] for each in found]) for name in ("rows", "sizes"))
    return Upload(rows=rows, sizes=sizes, rate=found[0]["rate"])


def send_plainly(upload: Upload) -> bytes:
    scalars = json.dumps({"rate": upload.rate}, separators=(",", ":"), allow_nan=False).encode()
    arrays = safetensors.torch.save({"rows": upload.rows, "sizes": upload.sizes})
    body = struct.pack("<I", len(scalars)) + scalars + arrays
    head = codec.frame(replace(EMPTY, body=b""))
    return head + body


def receive_plainly(frames: list[bytes]) -> Upload:
    decoded = [_loaded(frame) for frame in frames]
    if len(decoded) == 1:
        return Upload(**decoded[0])
    rows, sizes = (torch.cat([each[name] for each in decoded]) for name in ("rows", "sizes"))
    return Upload(rows=rows, sizes=sizes, rate=decoded[0]["rate"])


def _loaded(frame: bytes) -> dict[str, Any]:
    body = bytes(codec.unframe(frame).body)
    start = 4 + struct.unpack_from("<I", body)[0]
    return {**json.loads(body[4:start]), **safetensors.torch.load(body[start:])}


def uploads(count: int, num_bytes: int) -> list[Upload]:
    stream = torch.Generator().manual_seed(count)
    rows = [torch.rand(75, num_bytes // 300, generator=stream) for _ in range(count)]
    return [Upload(rows=x, sizes=torch.arange(75), rate=0.1) for x in rows]


def seconds(send: Send, receive: Receive, messages: list[Upload], together: bool) -> float:
    """One round trip of all messages; `together`: as hosts' replies to one ask."""
    began = time.process_time()
    if together:
        receive([send(message) for message in messages])
    else:
        for message in messages:
            receive([send(message)])
    return time.process_time() - began


def check(messages: list[Upload]) -> None:
    frames = [send(message) for message in messages]
    assert frames == [send_plainly(message) for message in messages], "other bytes"
    for ours, plain in zip(
        receive(frames).values().values(), receive_plainly(frames).values().values(), strict=True
    ):
        assert torch.equal(torch.as_tensor(ours), torch.as_tensor(plain)), "other values"


def compare(name: str, messages: list[Upload], together: bool, repeats: int) -> float:
    check(messages)
    ours = plain = 0.0
    for _ in range(repeats):
        plain += seconds(send_plainly, receive_plainly, messages, together)
        ours += seconds(send, receive, messages, together)
    print(
        f"{name}: plain {plain / repeats * 1e3:.1f} ms, ours {ours / repeats * 1e3:.1f} ms CPU, "
        f"ratio {ours / plain:.2f}"
    )
    return ours / plain


def rows(repeats: int = 5) -> list[Row]:
    torch.set_num_threads(1)
    name = "encode and decode four messages of 28 MB, CPU over safetensors' own save and load"
    return [Row(name, 0.6, compare(name, uploads(4, 28_000_000), True, repeats), "x")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    compare("4 messages of 28 MB", uploads(4, 28_000_000), True, repeats)
    compare("1 message of 64 MB", uploads(1, 64_000_000), True, repeats)
    compare("1000 messages of 3 kB", uploads(1000, 3_000), False, repeats)


if __name__ == "__main__":
    main()
