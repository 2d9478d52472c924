"""A recipient gets its sum, the server nothing, and nobody a single contribution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chisquare

from securefg.errors import PrivacyError
from securefg.secagg import recipient_sums
from securefg.secagg.derive import MaskContext, expand, pair_mask_key
from securefg.secagg.errors import MaskKeyReused, Refused
from securefg.secagg.graph_parameters import Threat
from securefg.secagg.keys import KeyPair
from securefg.secagg.prg import Keystream
from securefg.secagg.recipient_sums import (
    Correspondents,
    Forwarded,
    RecipientPlan,
    contributor_info,
    forward,
    recipient_info,
)
from securefg.secagg.ring import RingArray
from securefg.secagg.secret import Secret

SESSION = bytes(range(32))
THREAT = Threat(0.05, 0.0)
RING = {0: [1, 2, 3, 4], 1: [0, 2, 4], 3: [0, 1, 2, 4, 5], 5: [0, 2, 3]}


def parties(number: int) -> dict[int, KeyPair]:
    stream = Keystream(Secret(bytes([7]) * 32))
    return {party: KeyPair.fresh(stream.read) for party in range(number)}


def planned(contributors: Mapping[int, Iterable[int]], keys: Mapping[int, KeyPair]):
    return RecipientPlan.of(contributors, [pair.public for pair in keys.values()], SESSION, THREAT)


def context(length: int, bits: int = 32, round: int = 1, field: str = "h") -> MaskContext:
    return MaskContext(round, "Contribution", field, length, bits)


def contributions(plan: RecipientPlan, length: int, bits: int = 32, seed: int = 0) -> RingArray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**bits, (len(plan.edges), length), dtype=f"<u{bits // 8}")


class World:
    """Six parties in hosts of any shape, and the server between them."""

    def __init__(self, hosts: list[list[int]], contributors=RING, number: int = 6) -> None:
        self.keys = parties(number)
        self.plan = planned(contributors, self.keys)
        self.hosts = {
            tuple(host): Correspondents(self.plan, {p: self.keys[p] for p in host})
            for host in hosts
        }

    def uploads(self, plain: RingArray, which: MaskContext) -> RingArray:
        """All rows, masked by their hosts, in the plan's order."""
        masked = plain.copy()
        for host, correspondents in self.hosts.items():
            rows = self.plan.rows_of(host)
            own = plain[rows]
            correspondents.mask(own, which)
            masked[rows] = own
        return masked

    def opened(self, sent: Forwarded, which: MaskContext) -> dict[int, RingArray]:
        found = {}
        for host, correspondents in self.hosts.items():
            mine = [i for i, k in enumerate(sent.recipients) if k in host]
            totals = np.ascontiguousarray(sent.totals[mine])
            correspondents.open(totals, [sent.recipients[i] for i in mine], which)
            found |= {sent.recipients[i]: total for i, total in zip(mine, totals, strict=True)}
        return found


def plain_sum(plan: RecipientPlan, plain: RingArray, recipient: int) -> RingArray:
    return plain[plan.edges[:, 0] == recipient].sum(0, dtype=plain.dtype)


APART = [[party] for party in range(6)]


# ------------------------------------------------------------------------------------- the sum


@settings(max_examples=15)
@given(
    st.sampled_from([32, 64]),
    st.sampled_from([APART, [[0, 1, 2, 3, 4, 5]], [[0, 3], [1, 2, 5], [4]]]),
    st.integers(1, 40),
    st.integers(0, 99),
)
def test_each_recipient_gets_its_plain_sum_to_the_bit(bits, hosts, length, seed) -> None:
    world, which = World(hosts), context(length, bits)
    plain = contributions(world.plan, length, bits, seed)
    sent = forward(world.plan, world.uploads(plain, which), range(6))
    found = world.opened(sent, which)
    assert sent.aborted == ()
    assert sorted(found) == sorted(RING)
    for recipient, total in found.items():
        assert np.array_equal(total, plain_sum(world.plan, plain, recipient))


def test_uploads_do_not_depend_on_who_shares_a_host() -> None:
    plain = contributions(World(APART).plan, 5)
    apart = World(APART).uploads(plain, context(5))
    together = World([[0, 1, 2, 3, 4, 5]]).uploads(plain, context(5))
    assert np.array_equal(apart, together)


def test_many_contributors_mask_along_a_sparse_graph_and_sum_up_all_the_same() -> None:
    number = 120
    contributors = {0: range(1, number), 7: range(8, 60)}
    world = World([list(range(number))], contributors, number)
    plain = contributions(world.plan, 3)
    sent = forward(world.plan, world.uploads(plain, context(3)), range(number))
    for recipient, total in world.opened(sent, context(3)).items():
        assert np.array_equal(total, plain_sum(world.plan, plain, recipient))
    assert len(world.plan.pairs) < 119 * 118 / 2
    for recipient, members in contributors.items():
        pairs = [pair for pair, common in world.plan.pairs.items() if recipient in common]
        low, high = np.array(pairs).T
        graph = coo_array((np.ones(len(pairs)), (low, high)), shape=(number, number))
        _, label = connected_components(graph, directed=False)
        assert len(set(label[list(members)])) == 1


# ------------------------------------------------------------------------------ who sees what


def assert_uniform(words: RingArray) -> None:
    """Bytes equally frequent, at one in a million."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).ravel(), minlength=256)
    assert chisquare(counts).pvalue > 1e-6


def test_what_the_server_sees_is_uniform_though_all_contributions_are_zero() -> None:
    world, length = World(APART), 4000
    plain = np.zeros((len(world.plan.edges), length), np.uint32)
    uploads = world.uploads(plain, context(length))
    for row in [*uploads, *forward(world.plan, uploads, range(6)).totals]:
        assert_uniform(row)
    first, second = np.triu_indices(len(uploads), 1)
    for i, j in zip(first, second, strict=True):
        assert_uniform(uploads[i] - uploads[j])


def without_recipient_masks(world: World, uploads: RingArray, recipient: int) -> RingArray:
    """What the server and the recipient have together: its own masks taken off every upload."""
    rows = np.flatnonzero(world.plan.edges[:, 0] == recipient)
    known = Correspondents(world.plan, {recipient: world.keys[recipient]})
    which = context(uploads.shape[1])
    left = uploads[rows].copy()
    for row, contributor in enumerate(world.plan.edges[rows, 1].tolist()):
        key = known._recipient_key(recipient, contributor, recipient, which)
        left[row] -= np.frombuffer(Keystream(key).read(left[row].nbytes), "<u4")
    return left


def test_server_and_recipient_together_open_the_whole_sum_and_no_part_of_it() -> None:
    world, length = World(APART), 4000
    plain = contributions(world.plan, length)
    left = without_recipient_masks(world, world.uploads(plain, context(length)), 3)
    rows = plain[world.plan.edges[:, 0] == 3]
    assert np.array_equal(left.sum(0, dtype=np.uint32), rows.sum(0, dtype=np.uint32))
    for members in range(1, 2**5 - 1):
        chosen = [bool(members >> place & 1) for place in range(5)]
        assert_uniform((left[chosen] - rows[chosen]).sum(0, dtype=np.uint32))


def test_two_assignments_with_one_sum_give_server_and_recipient_equally_likely_views() -> None:
    """Shifting uniform pads by what differs turns one view into the other, bit for bit."""
    world, length, recipient = World(APART), 6, 0
    plain = contributions(world.plan, length)
    rows = np.flatnonzero(world.plan.edges[:, 0] == recipient)
    members = world.plan.edges[rows, 1].tolist()
    view = without_recipient_masks(world, world.uploads(plain, context(length)), recipient)

    other = contributions(world.plan, length, seed=1)[rows]
    other[0] += (plain[rows] - other).sum(0, dtype=np.uint32)
    assert np.array_equal(other.sum(0, dtype=np.uint32), plain[rows].sum(0, dtype=np.uint32))
    assert not (other == plain[rows]).all(1).any()

    everybody = Correspondents(world.plan, world.keys)
    again = other.copy()
    for (low, high), recipients in world.plan.pairs.items():
        if recipient in recipients:
            pads = everybody._pad(low, high, recipients, context(length))
            pad = pads[list(recipients).index(recipient)].copy()
            if low == members[0]:  # the star around the first contributor is a spanning tree
                at = members.index(high)
                pad -= plain[rows][at] - other[at]
            again[members.index(low)] += pad
            again[members.index(high)] -= pad
    assert np.array_equal(again, view)


# --------------------------------------------------------------------------------- drop-outs


@pytest.mark.parametrize(("gone", "aborted"), [(5, (3,)), (1, (0, 3)), (2, (0, 1, 3, 5))])
def test_a_missing_contributor_aborts_its_recipients_sums_and_no_others(gone, aborted) -> None:
    world, which = World(APART), context(8)
    plain = contributions(world.plan, 8)
    arrived = [party for party in range(6) if party != gone]
    uploads = world.uploads(plain, which)[world.plan.rows_of(arrived)]
    sent = forward(world.plan, uploads, arrived)
    assert sent.aborted == aborted
    for recipient, total in world.opened(sent, which).items():
        assert recipient not in aborted
        assert np.array_equal(total, plain_sum(world.plan, plain, recipient))


def test_uploads_that_do_not_fit_the_edges_are_refused() -> None:
    plan = World(APART).plan
    with pytest.raises(Refused, match="uploads came"):
        forward(plan, contributions(plan, 4)[1:], range(6))


# -------------------------------------------------------------------------------- the keys


def test_no_key_serves_twice_over_rounds_fields_recipients_and_directions(monkeypatch) -> None:
    used: list[tuple[bytes, bytes]] = []

    def recorded(root: Secret, info: bytes) -> Secret:
        used.append((root.reveal(), info))
        return expand(root, info)

    monkeypatch.setattr(recipient_sums, "expand", recorded)
    world = World([[0, 1, 2, 3, 4, 5]])
    for round in (1, 2):
        for field in ("h", "dh"):
            plain = contributions(world.plan, 2)
            world.uploads(plain, context(2, round=round, field=field))
    assert len(set(used)) == len(used) == 4 * (len(world.plan.edges) + len(world.plan.pairs))
    assert len({expand(Secret(root), info).reveal() for root, info in used}) == len(used)


def test_a_context_is_masked_once_and_opened_once() -> None:
    world = World(APART)
    plain = contributions(world.plan, 2)
    sent = forward(world.plan, world.uploads(plain, context(2)), range(6))
    world.opened(sent, context(2))
    with pytest.raises(MaskKeyReused):
        world.uploads(plain, context(2))
    with pytest.raises(MaskKeyReused):
        world.opened(sent, context(2))


def test_every_part_of_a_context_and_both_directions_give_other_keys() -> None:
    contexts = [
        context(4),
        context(5),
        context(4, bits=64),
        context(4, round=2),
        context(4, field="dh"),
        MaskContext(1, "Other", "h", 4, 32),
    ]
    infos = [recipient_info(*ends, c) for ends in [(1, 2), (2, 1)] for c in contexts]
    infos += [contributor_info(1, 2, to, c) for to in [(3,), (3, 4), ()] for c in contexts]
    root = Secret(bytes(32))
    keys = [expand(root, info).reveal() for info in infos]
    keys += [pair_mask_key(root, 1, 2, c).reveal() for c in contexts]
    assert len(set(keys)) == len(keys)


def test_contributors_that_were_told_different_recipients_get_masks_that_do_not_cancel() -> None:
    keys = parties(6)
    told = [planned(RING, keys), planned({k: RING[k] for k in (0, 3)}, keys)]
    pads = [
        Correspondents(plan, {party: keys[party]})._pad(1, 2, plan.pairs[1, 2], context(4))
        for plan, party in zip(told, (1, 2), strict=True)
    ]
    assert set(told[0].pairs[1, 2]) == set(told[1].pairs[1, 2])  # the same, so they cancel
    assert np.array_equal(*pads)
    fewer = planned({0: RING[0]}, keys)
    other = Correspondents(fewer, {2: keys[2]})._pad(1, 2, fewer.pairs[1, 2], context(4))
    assert not (other[0] == pads[0][0]).any()


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("members", [[], [1], [1, 2]])
def test_a_sum_of_fewer_than_three_is_refused(members) -> None:
    with pytest.raises(PrivacyError, match="wanted at least 3"):
        planned({0: members, 4: [0, 1, 2]}, parties(6))


@pytest.mark.parametrize(
    ("members", "why"),
    [([1, 1, 2], "twice"), ([0, 1, 2], "itself"), ([1, 2, 6], "nobody"), ([-1, 1, 2], "nobody")],
)
def test_a_plan_that_makes_no_sense_is_refused(members, why) -> None:
    with pytest.raises(Refused, match=why):
        planned({0: members}, parties(6))


def test_a_plan_with_a_forged_key_is_refused_by_its_owner() -> None:
    keys = parties(6)
    with pytest.raises(Refused, match="party 2"):
        Correspondents(planned(RING, keys), {2: KeyPair.fresh()})


@pytest.mark.parametrize("rows", [np.zeros((1, 4), np.uint32), np.zeros((4, 4), np.uint64)])
def test_rows_that_do_not_fit_the_context_are_refused(rows) -> None:
    keys = parties(6)
    correspondents = Correspondents(planned(RING, keys), {0: keys[0]})
    with pytest.raises(Refused, match="wanted"):
        correspondents.mask(rows, context(4))


def test_correspondents_do_not_print_their_keys() -> None:
    keys = parties(6)
    shown = repr(Correspondents(planned(RING, keys), keys))
    assert shown == "<Correspondents, hidden>"
