"""What a host's own process does: build the host, then answer until told to close."""

from __future__ import annotations

from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from securefg.data.shard import load_shards
from securefg.engines.breaches import breach, note_failure
from securefg.engines.endpoint import Endpoint
from securefg.engines.hosting import build_endpoint
from securefg.engines.pipes import receive, send
from securefg.foundation.errors import BREACHES, ProtocolError, SecurefgError
from securefg.protocol.codec import Body


def serve(pipe: Connection) -> None:
    spec, shard_file = pipe.recv()
    torch.set_num_threads(spec.config.engine.threads)
    try:
        endpoint = build_endpoint(spec, load_shards(shard_file))
    except SecurefgError as error:
        send(pipe, breach(error))
        return
    send(pipe, {"ready": True})
    while True:
        header, blob = receive(pipe)
        if header["do"] == "close":
            return
        try:
            send(pipe, *_perform(endpoint, header, blob))
        except BREACHES as error:
            send(pipe, breach(error))
        except Exception as error:
            send(pipe, {"dropped": note_failure(spec.name, error)})


def _perform(endpoint: Endpoint, header: dict[str, Any], blob: Body) -> tuple[dict[str, Any], Body]:
    match header["do"]:
        case "answer":
            answer = endpoint.answer(blob)
            return {"releases": [r.to_json() for r in answer.releases]}, answer.framed
        case "measure":
            scores = endpoint.measure(blob, header["at_end"])
            return {"scores": [asdict(score) for score in scores]}, b""
        case "save":
            endpoint.save(Path(header["folder"]))
        case "load":
            endpoint.load(Path(header["folder"]))
        case unknown:
            raise ProtocolError(f"no control {unknown!r}")
    return {"done": True}, b""
