"""A set-up as the server keeps it, and how long it lasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from securefg.protocol.messages import Message
from securefg.secagg.graph import MaskGraph
from securefg.secagg.messages import Roster
from securefg.secagg.seats import SESSIONS

PATIENCE: Final = 8
"""Of a large cohort somebody is always away: those wait so many sessions for the next set-up."""


@dataclass
class Setup:
    """A roster and its graph, for several sessions.

    asked     who was asked to advertise keys; `members` did
    ordinal   which session of it is the last that began
    """

    roster: Roster
    graph: MaskGraph
    asked: tuple[int, ...]
    ordinal: int = 0
    someone_away: bool = False

    def __post_init__(self) -> None:
        self.members: list[int] = self.roster.clients.tolist()

    def serves(self, asked: tuple[int, ...], reply: type[Message]) -> bool:
        """Whether another session of it will do. Sums for recipients take fresh box keys."""
        away = self.someone_away or len(self.members) < len(self.asked)
        patience = 1 if self.graph.parameters.complete else PATIENCE
        apart = any(d.scope == "recipients" for d in reply.declarations.values())
        most = patience if away else SESSIONS
        return asked == self.asked and self.ordinal + 1 < most and not apart
