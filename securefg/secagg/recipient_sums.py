"""Sums for single recipients: client k opens sum_j x_jk, the server nothing, and nobody one x_jk.

An upload of contributor j falls into one part for every recipient k. Before the masks of the
session go on, j adds to part k a pad that only j and k can make:

    y_jk = x_jk + PRG(r_jk)          in Z_2^32 or Z_2^64, then masked as any upload.

The session opens sum_j y_jk over its survivors, drop-outs recovered as always. To the server that
is uniform as long as k and one survivor are honest: it passes the row on to k, who takes off the
pads of the survivors. Server and k together have the sum over the survivors and no more, by the
argument for the session (Bonawitz et al. 2017). Several recipients that collude have several sums
of the same contributions: what these give away is for `exposure.linear_exposure` to say.

r_jk comes from the secret of boxes from j to k, and not from that of their masks: of a client that
drops out, the server rebuilds the roots of masks, and would open with them the client's own sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from securefg.secagg.derive import MaskContext, expand
from securefg.secagg.encoding import Item, encode
from securefg.secagg.errors import Refused
from securefg.secagg.keys import PROTOCOL, VERSION
from securefg.secagg.masks import RowMask, apply_row_masks
from securefg.secagg.ring import RingArray
from securefg.secagg.secret import Secret, Unprintable

MIN_CONTRIBUTORS: Final = 3
"""A sum of two shows either of them the other's part, once the recipient tells it."""


@final
class Pads(Unprintable):
    """The pads between the clients of one host and everybody, in one session.

    roots   the session's box secrets, by places of sender and receiver
    places  every client's place
    """

    __slots__ = ("_places", "_roots")

    def __init__(self, roots: Mapping[tuple[int, int], Secret], places: Mapping[int, int]) -> None:
        self._roots, self._places = roots, places

    def put_pads(self, rows: RingArray, contributors: Sequence[int], context: MaskContext) -> None:
        """Pad every part of the contributors' rows, in place.

        A part for its own contributor, or for a client outside the session, is of use to nobody
        and could not be padded: it becomes zero.
        """
        parts = rows.reshape(-1, part_width(context))
        masks = []
        for row, contributor in enumerate(contributors):
            for recipient in range(context.recipients):
                part = row * context.recipients + recipient
                if recipient == contributor or recipient not in self._places:
                    parts[part] = 0
                else:
                    key = self._pad_key(contributor, recipient, context)
                    masks.append(RowMask(key, part, None))
        apply_row_masks(parts, masks)

    def take(
        self,
        totals: RingArray,
        recipients: Sequence[int],
        contributors: Iterable[int],
        context: MaskContext,
    ) -> None:
        """Take the contributors' pads off the rows that the server passed on, in place."""
        if totals.shape != (len(recipients), part_width(context)):
            raise Refused(
                f"{context.message}.{context.field}: {totals.shape} was passed on, wanted "
                f"{(len(recipients), part_width(context))}"
            )
        senders = list(contributors)
        masks = [
            RowMask(self._pad_key(contributor, recipient, context), None, row)
            for row, recipient in enumerate(recipients)
            for contributor in senders
            if contributor != recipient
        ]
        apply_row_masks(totals, masks)

    def _pad_key(self, contributor: int, recipient: int, context: MaskContext) -> Secret:
        root = self._roots.get((self._places[contributor], self._places[recipient]))
        if root is None:
            raise Refused(f"clients {contributor} and {recipient} have no secret for a pad")
        return expand(root, recipient_info(contributor, recipient, context))


def part_width(context: MaskContext) -> int:
    """How many numbers a part has; of an upload that does not fall into equal parts, an error."""
    numbers, rest = divmod(context.length, context.recipients)
    if rest:
        raise Refused(
            f"{context.message}.{context.field}: {context.length} numbers do not fall into "
            f"{context.recipients} parts"
        )
    return numbers


def recipient_info(contributor: int, recipient: int, context: MaskContext) -> bytes:
    """HKDF info of the pad that the contributor adds and only the recipient can subtract."""
    items: tuple[Item, ...] = (
        context.round,
        context.message,
        context.field,
        context.length,
        1 << context.modulus_bits,
        context.recipients,
    )
    return encode((PROTOCOL, VERSION, "recipient-pad", contributor, recipient, *items))
