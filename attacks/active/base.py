"""An active attack: requests that a lying server sends in place of the protocol's, and a guess.

The lie sees what the server knows before a run and each request that the protocol would send. It
answers with the requests that are sent instead. The guess is made as in any attack, from the view
of the federation that was lied to. A rehearsal (`audits.rehearsals`) plays both against real
clients of its own. No recorded run is lied to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from attacks.base import Attack, View
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Meaning

Said = Tensor | bool | int | float | str | None


@dataclass(frozen=True)
class Request:
    """A request that the protocol would send.

    values    by the request's fields
    meanings  the meanings of the fields that have one
    wanted    what the replies to it mean
    """

    round: int
    values: Mapping[str, Said] = field(repr=False)
    meanings: Mapping[str, Meaning]
    wanted: tuple[Meaning, ...]

    def field_with_meaning(self, need: Meaning) -> str | None:
        """Return the name of the field with that meaning, or None."""
        return next((name for name, m in self.meanings.items() if m.fits(need)), None)

    named = field_with_meaning  # the earlier name, kept for one version

    def asks_for(self, need: Meaning) -> bool:
        """Return whether replies to this request hold what is needed."""
        return any(meaning.fits(need) for meaning in self.wanted)


@dataclass(frozen=True)
class Told:
    """A request that is sent instead: the changed fields, and the only clients asked if they are
    named."""

    changes: Mapping[str, Said] = field(default_factory=dict, repr=False)
    clients: Clients | None = None


Lie = Callable[[View, Any, Request, np.random.Generator], Sequence[Told]]
"""The last of the requests is the one whose replies the protocol goes on with; none: no lie."""


@dataclass(frozen=True, kw_only=True)
class ActiveAttack(Attack[Any]):
    """An attack by a server that lies.

    lie      what it sends
    noticed  what a client could see of it
    """

    lie: Lie = field(repr=False)
    noticed: str
