"""A delivery of shares with a missing row is refused by the name of its field."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from securefg.secagg.errors import Refused
from securefg.secagg.messages import Deliver
from tests.unit.secagg.session_world import edited, world

Cut = Callable[[Tensor], Tensor]

CUTS: dict[str, Cut] = {
    "a client's row is missing": lambda rows: rows[:-1],
    "all rows are missing": lambda rows: rows[:0],
    "a row too many": lambda rows: rows.repeat(2, 1, 1),
    "a holder's row is missing": lambda rows: rows[:, :-1],
    "a byte is missing": lambda rows: rows[:, :, :-1],
    "an axis is missing": lambda rows: rows[0],
    "no axes": lambda rows: rows.sum(),
    "numbers of eight bytes": lambda rows: rows.long(),
}


@pytest.mark.parametrize("field", ["boxes", "share_digests", "box_ciphertexts", "mask_ciphertexts"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_deliver_with_missing_row_is_refused_by_name(field: str, cut: Cut) -> None:
    bed = world(6, layout=[[0, 1, 2], [3], [4], [5]])
    bed.lie(Deliver, lambda told: edited(told, **{field: cut(getattr(told, field))}), 0, 1, 2)
    with pytest.raises(Refused, match=rf"^messages\.Deliver\.{field}: found .*; expected "):
        bed.collect()
    assert not bed.masked
