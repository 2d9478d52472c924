"""FedGL whose clients all fail when they are asked to train: every masked round aborts."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from securefg.federation.channel import Turn
from securefg.methods.fedgl import algorithm as fedgl
from securefg.protocol.messages import Message


class Settings(fedgl.Settings):
    name: Literal["tests.unit.runs.absent"] = "tests.unit.runs.absent"  # type: ignore[assignment]


class Absent(fedgl.Client):
    def handle(self, request: Message, turn: Turn) -> Message:
        raise ValueError("gone")


METHOD = replace(fedgl.METHOD, name="tests.unit.runs.absent", settings=Settings, make_host=Absent)
