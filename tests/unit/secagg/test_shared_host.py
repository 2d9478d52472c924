"""What clients of one host know of one another's boxes changes nothing that they would find."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from securefg.secagg.messages import Deliver, Ready
from tests.unit.secagg.session_world import World, edited, same_sums, world

N = 6


def together() -> World:
    return world(N, layout=[list(range(N))], malicious=True)


def flipped(tensor: Tensor) -> Tensor:
    """One bit of what the second client got from the first is another."""
    changed = tensor.clone()
    changed[1, 0, -1] ^= 1
    return changed


@pytest.mark.parametrize("name", ["boxes", "share_digests"])
def test_a_box_or_digest_that_was_changed_on_its_way_is_found_on_the_host_that_made_it(
    name: str,
) -> None:
    one = together()
    one.lie(Deliver, lambda request: edited(request, **{name: flipped(getattr(request, name))}))
    one.collect()
    ready = next(said for said in one.said if isinstance(said, Ready))
    assert ready.bad[1].tolist()[0] == 1
    assert int(ready.bad.sum()) == 1


def shares_held(forget: Callable[[World], None]) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    shared_bed, held_shares = together(), {}

    def look(request: Deliver) -> Deliver:
        forget(shared_bed)
        return request

    shared_bed.lie(Deliver, look)
    assert same_sums(shared_bed.sums(), shared_bed.plain_sums(range(N)))
    session = shared_bed.hosts[0]._session
    assert session is not None
    for number, party in session.parties.items():
        known = session._at_home
        for sender, share in party.held_key.items():
            both = (share.encode(), party.held_seed[sender].encode())
            held_shares[sender, number] = both
            if known:
                assert both == tuple(s.encode() for s in known[sender, session.places[number]][2:])
    return held_shares


def test_shares_are_those_that_opening_every_box_gives() -> None:
    def forget(one: World) -> None:
        session = one.hosts[0]._session
        assert session is not None
        session._at_home.clear()

    assert len(shares_held(lambda one: None)) == len(shares_held(forget)) == N * N
