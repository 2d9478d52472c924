"""The primitives together: a round with a drop-out gives the survivors' sum, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from securefg.secagg import boxes, derive, shamir
from securefg.secagg.derive import MaskContext
from securefg.secagg.graph import GraphParameters, MaskGraph
from securefg.secagg.keys import KeyPair
from securefg.secagg.masks import Mask, RowMask, Sign, apply_masks, apply_row_masks
from securefg.secagg.secret import Secret

SESSION = bytes(range(32))
DIM = 100
CONTEXT = MaskContext(round=3, message="Update", field="weights", length=DIM, modulus_bits=32)


class Cohort:
    """Clients of one host, as a session would drive them."""

    def __init__(self, num_clients: int, degree: int, threshold: int) -> None:
        self.parameters = GraphParameters(num_clients, degree, threshold)
        self.graph = MaskGraph.drawn(self.parameters, bytes(32))
        self.pairs = [KeyPair.fresh() for _ in range(num_clients)]
        self.seeds = [Secret.fresh() for _ in range(num_clients)]
        self.plain = np.random.default_rng(0).integers(0, 2**32, (num_clients, DIM), np.uint32)

    def pair_key(self, one: int, other: int, session: bytes = SESSION) -> Secret:
        root = self.pairs[one].agree_root(self.pairs[other].public, session)
        return derive.pair_mask_key(root, one, other, CONTEXT)

    def self_key(self, client: int, seed: Secret) -> Secret:
        return derive.self_mask_key(seed, SESSION, client, CONTEXT)

    def uploads(self) -> np.ndarray:
        masks = [RowMask(self.pair_key(i, j), i, j) for i, j in self.graph.pairs().tolist()]
        masks += [RowMask(self.self_key(i, seed), i, None) for i, seed in enumerate(self.seeds)]
        masked = self.plain.copy()
        apply_row_masks(masked, masks)
        return masked

    def rebuilt(self, secret: Secret, client: int, alive: list[int]) -> Secret:
        """The secret as the server gets it: from shares that travelled to the living holders."""
        holders = self.graph.holders(client)
        shares = shamir.split_secret(secret, [h + 1 for h in holders], self.parameters.threshold)
        living = [share for share in shares if share.point - 1 in alive]
        check = shamir.commits_to(shamir.commit_to_secret(secret, SESSION, client), SESSION, client)
        return shamir.combine_shares(living, self.parameters.threshold, check)

    def unmasking(self, alive: list[int], dropped: list[int]) -> list[Mask]:
        self_masks = [
            Mask(self.self_key(c, self.rebuilt(self.seeds[c], c, alive)), Sign.SUBTRACT)
            for c in alive
        ]
        pairs = []
        for gone in dropped:
            pair = KeyPair(self.rebuilt(self.pairs[gone].secret, gone, alive))
            for peer in set(self.graph.neighbours(gone)) & set(alive):
                root = pair.agree_root(self.pairs[peer].public, SESSION)
                key = derive.pair_mask_key(root, gone, peer, CONTEXT)
                pairs.append(Mask(key, Sign.of(peer, gone).opposite_sign()))
        return self_masks + pairs


@pytest.mark.parametrize(
    ("num_clients", "degree", "threshold"), [(5, 4, 3), (20, 8, 4)], ids=["complete", "sparse"]
)
@pytest.mark.parametrize("dropped", [[], [1], [0, 3]])
def test_the_server_gets_the_survivors_sum(
    num_clients: int, degree: int, threshold: int, dropped: list[int]
) -> None:
    cohort = Cohort(num_clients, degree, threshold)
    alive = [c for c in range(num_clients) if c not in dropped]
    total = cohort.uploads()[alive].sum(0, dtype=np.uint32)
    apply_masks(total, cohort.unmasking(alive, dropped))
    assert np.array_equal(total, cohort.plain[alive].sum(0, dtype=np.uint32))


def test_a_client_shown_another_model_spoils_the_sum() -> None:
    """Its session id differs, so its masks do not cancel: the server learns nothing from it."""
    cohort = Cohort(3, 2, 2)
    other = derive.session_id(bytes(32), 0, 1, "Update", b"another model")
    rows = cohort.plain.copy()
    apply_row_masks(rows, [RowMask(cohort.pair_key(1, 2), 1, 2)])
    for peer in (1, 2):
        apply_row_masks(rows, [RowMask(cohort.pair_key(0, peer, other), 0, None)])
        apply_row_masks(rows, [RowMask(cohort.pair_key(0, peer), None, peer)])
    difference = rows.sum(0, dtype=np.uint32) - cohort.plain.sum(0, dtype=np.uint32)
    assert np.count_nonzero(difference) > 0.9 * DIM


def test_shares_travel_in_boxes_from_holder_to_holder() -> None:
    sender, receiver = KeyPair.fresh(), KeyPair.fresh()
    share = shamir.split_secret(sender.secret, (1, 2), 2)[1]
    root = sender.agree_root(receiver.public, SESSION)
    box = boxes.seal_box(root, SESSION, 0, 1, share.encode())
    got = boxes.open_box(receiver.agree_root(sender.public, SESSION), SESSION, 0, 1, box)
    assert shamir.Share.decode(2, got) == share
