"""A host's answers while shares are dealt: sealed shares, then opened boxes and signed pairs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from securefg.secagg import shamir
from securefg.secagg.errors import Refused
from securefg.secagg.keys import Identity
from securefg.secagg.messages import Deliver, Ready, Shares
from securefg.secagg.ring import from_bytes, rows_of_each, stack_rows
from securefg.secagg.secret import RandomBytes
from securefg.secagg.session import Session


def make_shares(session: Session, numbers: list[int], random_bytes: RandomBytes) -> Shares:
    """Return the clients' sealed shares. In the first session of a set-up ciphertexts go with the
    boxes that they open. In later sessions the roots of pair masks are known and go along."""
    offers = [session.offer_links(n) for n in numbers] if session.is_first else []
    if session.seats.suite == "classical":
        offers = []
    dealt = [session.seal_shares(number, random_bytes) for number in numbers]
    commitments = [
        shamir.commit_to_secret(session.parties[n].seed, session.id, session.places[n])
        for n in numbers
    ]
    wrapped = [] if session.is_first else [session.wrap_roots(n) for n in numbers]
    return Shares(
        wrapped=stack_rows(wrapped),
        box_ciphertexts=stack_rows([offer.boxes for offer in offers]),
        mask_ciphertexts=stack_rows([offer.masks for offer in offers]),
        boxes=torch.stack([from_bytes(one.boxes) for one in dealt]),
        commitment=from_bytes(commitments),
        share_digests=torch.stack([from_bytes(one.digests) for one in dealt]),
    )


def open_delivery(
    session: Session, request: Deliver, numbers: list[int], identities: Mapping[int, Identity]
) -> Ready:
    """Make the links of a first session, and open all boxes. Return which were bad, and in a first
    session the signed roots and tags of all pairs."""
    received = rows_of_each(request.mask_ciphertexts, len(numbers))
    if session.is_first:
        sent = rows_of_each(request.box_ciphertexts, len(numbers))
        for n, boxes, masks in zip(numbers, sent, received, strict=True):
            session.take_links(n, boxes, masks)
        session.seats.is_linked = True
    elif not session.links_all(session.sharers, numbers):
        raise Refused("a sharer has no link with its neighbours in this set-up")
    assert request.boxes is not None, "checked"
    assert request.share_digests is not None, "checked"
    rows = zip(numbers, request.boxes, request.share_digests, strict=True)
    bad = torch.tensor([session.open_boxes(*row) for row in rows], dtype=torch.uint8)
    if not session.is_first:
        return Ready(bad=bad, wrapped=None, signature=None)
    wrapped = [session.wrap_roots(n) for n in numbers]
    signatures = [
        identities[n].sign("pairs", *session.pairs_statement(n, roots, masks))
        for n, roots, masks in zip(numbers, wrapped, received, strict=True)
    ]
    return Ready(bad=bad, wrapped=stack_rows(wrapped), signature=from_bytes(signatures))


def leave_out(session: Session, sharers: tuple[int, ...], numbers: list[int]) -> Ready:
    """Go on with fewer sharers; nothing is opened again."""
    session.sharers = sharers
    session.leave_out()
    none = [[0] * len(session.graph.holders(session.places[n])) for n in numbers]
    return Ready(bad=torch.tensor(none, dtype=torch.uint8), wrapped=None, signature=None)
