"""The client's part in a dispute: when it opens the secret behind a mask key, and on what evidence.

A client opens only before it uploaded anything under the set-up, and never takes part in it again.
Secrets between two clients that upload stay closed. It also wants the peer's signature on another
tag than its own, in rows of full width. Without a client that lies, no server can make clients open
their keys.

A lying server that knows an opened key could name its owner as a survivor, with an upload that it
made itself. Clients therefore count signatures on the survivors, not names: the owner does not sign
for a set-up that it left. In a complete graph every client checks every signature. The server could
show an opened key once more, in another roster of the same round. Keys are therefore opened only
where no roster of the plan has a sparse graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from securefg.secagg.errors import Refused
from securefg.secagg.graph import is_always_complete
from securefg.secagg.keys import verify
from securefg.secagg.memory import Memory
from securefg.secagg.messages import Dispute
from securefg.secagg.ring import rows_of_each, to_bytes
from securefg.secagg.rules import Rules
from securefg.secagg.session import Session, SignedPairs
from securefg.secagg.statements import pairs_statement


def opened_secrets(
    session: Session,
    request: Dispute,
    numbers: list[int],
    identities: Sequence[bytes],
    memory: Memory,
    rules: Rules,
) -> list[bytes]:
    """The secrets behind these clients' mask keys, after all checks; the opening is noted."""
    setup = to_bytes(request.setup[None])[0]
    if not session.id or setup != session.seats.id:
        raise Refused("Dispute.setup: found another set-up than the open one")
    linking = session.seats.linking
    if linking is None or session.answered or not session.sharers:
        raise Refused("a mask key is opened only before anything is uploaded under it")
    if session.opened & set(numbers):
        raise Refused("a mask key is opened once")
    if not is_always_complete(rules.largest_cohort(session.purpose)):
        raise Refused("a mask key is opened only where all sign the survivors for all")
    memory.refuse_opening(setup)
    _check_evidence(session, request, numbers, identities)
    memory.opened(session.round, session.purpose, numbers, setup)
    return [linking.mask_secret(session.places[n]).reveal() for n in numbers]


def _check_evidence(
    session: Session, request: Dispute, numbers: list[int], identities: Sequence[bytes]
) -> None:
    """Raise unless each peer signed another tag than the client's, on the same ciphertext."""
    columns = [
        rows_of_each(rows, len(numbers))
        for rows in (request.wrapped, request.sent, request.received)
    ]
    shown = zip(
        numbers, request.peers.tolist(), *columns, to_bytes(request.signatures), strict=True
    )
    for number, peer, wrapped, sent, received, signature in shown:
        pairs = SignedPairs(wrapped, sent, received, signature)
        if not session.differs_from(number, peer, pairs):
            raise Refused(f"the signed tag of client {peer} is no other than client {number}'s")
        said = pairs_statement(session.id, peer, wrapped, sent, received)
        verify(identities[peer], signature, "pairs", *said)
