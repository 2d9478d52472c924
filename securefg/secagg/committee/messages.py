"""Messages between the server and the members of a committee.

server                    member
Inspect      ->           Inspected     which boxes are bad
Pledge       ->           Pledged       its signature on the list of clients; once per sum
OpenMasks    ->           OpenedMasks   the sum of its group's masks over the list, field by field
"""

from __future__ import annotations

from typing import Final

from torch import Tensor

from securefg.protocol.meanings import Public
from securefg.protocol.messages import Message, confidential, personal, public


class Inspect(Message, kind="committee.Inspect"):
    """Hands every member the boxes that clients sealed for it."""

    purpose: str = public("the message whose sums are wanted")
    request: Tensor = public("SHA-256 of the request that clients answered")
    clients: Tensor = public("the clients whose masked reply arrived")
    ephemeral: Tensor = public("their fresh X25519 keys")
    digests: Tensor = public("SHA-256 of every client's boxes, a row for each member")
    commitments: Tensor = public("hashes of every client's seeds, a row for each group")
    signatures: Tensor = public("their signatures on digests and commitments")
    boxes: Tensor = personal("a sealed seed of every client", means=Public("sealed boxes"))
    ciphertexts: Tensor | None = personal(
        "ML-KEM ciphertexts of every client", means=Public("ciphertexts of fresh keys")
    )


class Inspected(Message, kind="committee.Inspected"):
    """A member's word on the boxes."""

    bad: Tensor = public("1 for every client whose box or signature is wrong")


class Pledge(Message, kind="committee.Pledge"):
    """The list of clients whose sum is to be opened."""

    clients: Tensor = public("the clients in the sum")


class Pledged(Message, kind="committee.Pledged"):
    """A member's signature on the list."""

    signature: Tensor = public("signature on the list and on the boxes behind it")


class OpenMasks(Message, kind="committee.OpenMasks"):
    """Asks for the sum of masks on one field."""

    field: str = public("the field of the message")
    length: int = public("numbers of one client's row")
    modulus_bits: int = public("bits of the ring")
    signers: Tensor = public("members that signed the list")
    signatures: Tensor = public("their signatures")


class OpenedMasks(Message, kind="committee.OpenedMasks"):
    """The sum of a group's masks over the list."""

    total: Tensor = confidential("sum of masks, elements of the ring")


MESSAGES: Final = (Inspect, Inspected, Pledge, Pledged, OpenMasks, OpenedMasks)
KEY_MESSAGES: Final = (Inspected, Pledged, OpenedMasks)
