"""A private field that a method plans to send: how often, how large, what one unit moves of it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from securefg.privacy.influence import NOTHING, WHOLE_MESSAGE, Influence
from securefg.privacy.private_training import PrivateTraining
from securefg.protocol.messages import Declaration, Message
from securefg.settings.privacy import Per, Unit


@dataclass(frozen=True)
class Disclosure:
    """A reason to refuse an exact sum: what it would disclose, and the setting that makes it so.

    setting  `key: found X; expected Y`
    when     in which runs, after "under masks"
    shows    what the sum shows, as a sentence
    instead  what to set instead, as a sentence
    """

    setting: str
    when: str
    shows: str
    instead: str

    def __str__(self) -> str:
        return f"{self.setting} under masks {self.when}. {self.shows}. {self.instead}"


@dataclass(frozen=True)
class PlannedRelease:
    """A private field that a method will send.

    count     how often in the run, at most
    dim       how many numbers a client sends at once
    num_rows  in how many rows, where the field has rows
    bound     what no number passes by its nature (a count, a probability), where there is such
    trained   the private training that makes the value, where the noise is in the training
    senders   how many clients send it, where those are not all
    norm      the L2 norm that no client's message passes by its nature; the clip, where given
    node      what one node moves of one holder's message; by default all of it
    edge      what one edge moves
    unlabelled  nodes without a training label contribute too
    steered   what the server sent to single clients, now or before, moves the value
    noisier   its noise multiplier over that of other releases, where an epsilon for all of them
              sizes the noise: how the method shares the budget out
    discloses  why an exact sum of it is refused, where it is
    relative_to  the field of the request that the value started from: where its weight is counted
              once, clients send the weighted change, and who is away counts as unchanged
    bare      True: it leaves only in runs whose sums are masked and carry no noise (a census);
              False: only in all other runs; None: in every run. `with_census` sets it
    """

    message: type[Message]
    field: str
    count: int
    dim: int = 1
    num_rows: int = 1
    bound: float | None = None
    trained: PrivateTraining | None = None
    senders: int | None = None
    norm: float | None = None
    node: Influence = WHOLE_MESSAGE
    edge: Influence = WHOLE_MESSAGE
    unlabelled: bool = False
    steered: bool = False
    noisier: float = 1.0
    discloses: Disclosure | None = None
    relative_to: str | None = None
    bare: bool | None = None

    def leaves(self, *, bare: bool) -> bool:
        """Return whether it leaves in a run whose sums are, or are not, masked without noise."""
        return self.bare is None or self.bare is bare

    @property
    def most_rounds(self) -> int:
        """Return in how many rounds it leaves at most. A census is planned for none and leaves in
        one."""
        return max(self.count, int(self.declaration.constant))

    @property
    def not_bare(self) -> str:
        """Return the reason for which masks without noise are refused, or an empty text."""
        return "" if self.discloses is None else str(self.discloses)

    @property
    def whole(self) -> bool:
        """Return whether a masked sum of it without noise is opened only over all clients. The rows
        missing in a sum would show which rows an absent client holds."""
        declared = self.declaration
        counts_rows = declared.constant and declared.rows is not None and self.bare is True
        return declared.holders is not None or counts_rows

    def weighted_rows_by(self, names: Container[str]) -> str | None:
        """Return the name of the field, if it is among these, that multiplies every row."""
        weight = f"{self.message.__name__}.{self.declaration.weight}"
        return weight if self.declaration.rows and weight in names else None

    @property
    def name(self) -> str:
        """Return `Message.field`, as rules and ledgers name it."""
        return f"{self.message.__name__}.{self.field}"

    @property
    def declaration(self) -> Declaration:
        """Return the message's declaration of the field."""
        return self.message.declarations[self.field]

    def influence(self, unit: Unit) -> Influence:
        """Return what one unit moves of a message. Only the clip bounds a client or a row."""
        known = {"node": self.node, "edge": self.edge, "features": self.node}
        return known.get(unit, WHOLE_MESSAGE)

    def moved_l2(self, unit: Unit) -> float | None:
        """Return the distance that noise is sized for.

        A unit that does not move the value needs no noise for its sake. Noise that covers a node
        then costs least and leaves the others a promise.
        """
        found = self.influence(unit)
        return self.node.moved_l2 if found == NOTHING else found.moved_l2

    def unit_dim(self, per: Per) -> int:
        """Return how many numbers one clipped unit has: a message, or a row of it."""
        return self.dim if per == "message" else self.dim // self.num_rows
