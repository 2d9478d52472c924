"""The stages of secure aggregation as messages (Bonawitz et al. 2017, figure 4).

server                              every client
Advertise            ->             Keys                two fresh public keys, signed
Roster               ->             Shares              sealed shares for the holders
Again                               in place of both, in the next sessions of one set-up
Deliver              ->             Ready               which boxes were bad; signed tags of pairs
Dispute              ->             Opening             of two whose tags differ; ends the set-up
the method's request ->             its masked reply
Survivors            ->             Agreed              unless the server is trusted
Unmask               ->             Revealed            a share of every neighbour's, of one kind
"""

from __future__ import annotations

from typing import Final

from torch import Tensor

from securefg.protocol.meanings import Public
from securefg.protocol.messages import Message, confidential, personal, public


class Advertise(Message, kind="messages.Advertise"):
    """A new session for one reply of one round."""

    purpose: str = public("the message whose sums are wanted")
    version: int = public("the format of messages and set-ups")


class Keys(Message, kind="messages.Keys"):
    """A client's fresh public keys for one set-up."""

    mask_key: Tensor = public("X25519 and ML-KEM-768 key for masks, fresh")
    box_key: Tensor = public("X25519 and ML-KEM-768 key for share boxes, fresh")
    signature: Tensor = public("Ed25519 signature on both keys, the round and the settings")


class Roster(Message, kind="messages.Roster"):
    """Everybody who advertised; `model_hash` binds the session to the request that will come."""

    clients: Tensor = public("numbers of the clients in the session")
    mask_keys: Tensor = public("their keys for masks")
    box_keys: Tensor = public("their keys for share boxes")
    signatures: Tensor = public("their signatures")
    model_hash: Tensor = public("SHA-256 of the request that the masked reply answers")
    with_pads: bool = public("whether box secrets are made with everybody, for sums of recipients")


class Again(Message, kind="messages.Again"):
    """A new session of a set-up: the same roster, keys and graph, other secrets."""

    purpose: str = public("the message whose sums are wanted")
    setup: Tensor = public("SHA-256 of the roster that was set up")
    ordinal: int = public("which session of the set-up this is")
    model_hash: Tensor = public("SHA-256 of the request that the masked reply answers")


class Shares(Message, kind="messages.Shares"):
    """A client's shares for its holders, sealed, with digests and a commitment.

    Ciphertexts are in the first session of a hybrid set-up, wrapped roots in all later sessions.
    """

    wrapped: Tensor | None = public(
        "row j: the root of the masks with holder j, under the key that is shared, and its tag"
    )
    box_ciphertexts: Tensor | None = public("ML-KEM ciphertexts for boxes, a row for each holder")
    mask_ciphertexts: Tensor | None = public(
        "confirmed ML-KEM ciphertexts for masks, to neighbours ahead"
    )
    boxes: Tensor = public("sealed shares, row j for the j-th holder")
    commitment: Tensor = public("commitment to the seed of the self mask")
    share_digests: Tensor = public("SHA-256 of the two shares in every box, row j for holder j")


class Deliver(Message, kind="messages.Deliver"):
    """A second one, without boxes, only leaves out sharers."""

    sharers: Tensor = public("the clients whose shares were handed out")
    boxes: Tensor | None = personal(
        "the sealed shares that others made for this client", means=Public("sealed boxes")
    )
    share_digests: Tensor | None = personal(
        "what their senders said is in the boxes", means=Public("hashes of shares")
    )
    box_ciphertexts: Tensor | None = personal(
        "ML-KEM ciphertexts for boxes to this client", means=Public("ciphertexts of fresh keys")
    )
    mask_ciphertexts: Tensor | None = personal(
        "confirmed ML-KEM ciphertexts for masks, from neighbours behind",
        means=Public("ciphertexts of fresh keys"),
    )


class Ready(Message, kind="messages.Ready"):
    """A client's word on the boxes that it was sent, and, at first, on its pairs."""

    bad: Tensor = public("1 for every box that did not hold what its sender said")
    wrapped: Tensor | None = public("as in `Shares`, in the first session of a set-up")
    signature: Tensor | None = public("signature on wrapped roots, tags and mask ciphertexts")


class Dispute(Message, kind="messages.Dispute"):
    """Two clients whose tags differ: row i is what the i-th client asked is shown of the other."""

    setup: Tensor = public("SHA-256 of the roster that was set up; it ends here")
    peers: Tensor = personal("the other client of the pair", means=Public("clients"))
    wrapped: Tensor = personal("the other's wrapped roots and tags", means=Public("tags"))
    sent: Tensor | None = personal("its mask ciphertexts", means=Public("ciphertexts"))
    received: Tensor | None = personal("those delivered to it", means=Public("ciphertexts"))
    signatures: Tensor = personal("its signature on these", means=Public("signatures"))


class Opening(Message, kind="messages.Opening"):
    """A client's secret behind its mask key, of a set-up under which it uploaded nothing."""

    secret: Tensor = public("the secret behind the mask key of a set-up that ended")
    signature: Tensor = public("signature on it")


class Survivors(Message, kind="messages.Survivors"):
    """The server's list of clients whose masked reply arrived."""

    clients: Tensor = public("the clients whose masked reply arrived")


class Agreed(Message, kind="messages.Agreed"):
    """A client's signature on that list."""

    signature: Tensor = public("signature on the survivors in this session")


class Unmask(Message, kind="messages.Unmask"):
    """The server's request for the shares that open the sum."""

    survivors: Tensor = public("the clients whose masked reply arrived")
    dropped: Tensor = public("the sharers whose masked reply did not arrive")
    signers: Tensor = public("who signed the survivors")
    signatures: Tensor = public("their signatures")


class Revealed(Message, kind="messages.Revealed"):
    """Row j: the share of the j-th sharer that this client holds: of the seed, or of the key."""

    shares: Tensor = confidential("shares of survivors' seeds or of dropped clients' drop keys")
    which: Tensor = public("0 none, 1 of the seed, 2 of the drop key")


REDO = "redo/"
"""Before the kind of a request that a host is to handle once more, and to tell nothing of."""


class Redone(Message, kind="messages.Redone"):
    """In place of a reply that was in a sum before a crash."""

    number: int = public("the round")


MESSAGES: tuple[type[Message], ...] = (
    Advertise,
    Keys,
    Roster,
    Again,
    Shares,
    Deliver,
    Ready,
    Dispute,
    Opening,
    Survivors,
    Agreed,
    Unmask,
    Revealed,
)

KEY_MESSAGES: Final = (Keys, Shares, Ready, Opening, Agreed, Revealed)
"""What clients answer within a session: keys, boxes and signatures, made of no data."""
